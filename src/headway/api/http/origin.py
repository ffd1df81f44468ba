"""Checks of the `Host` and `Origin` of requests (S3)."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self
from urllib.parse import urlsplit

from headway.api.http.problem import Problem
from headway.core.errors import ConfigurationError

CROSS_ORIGIN_DETAIL: Final = (
    "a page of another origin may not call this server; if it is the server's own page behind a TLS"
    " proxy, set HEADWAY_PUBLIC_URL to the address that browsers use"
)
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
PAGE_PATHS: Final = frozenset({"/", "/ui"})
PAGE_PREFIX: Final = "/ui/"
READ_METHODS: Final = frozenset({"GET", "HEAD"})
_NAME: Final = r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?"
_NAME_ALONE: Final = re.compile(_NAME, re.ASCII)
_HOST: Final = re.compile(rf"(?P<name>{_NAME}|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?", re.ASCII)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class PublicAddress:
    """The address that browsers use if a proxy stands in front of this server."""

    scheme: str
    name: str
    port: int | None
    """The port, or None for the default port of the scheme, which browsers leave out."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse a URL. Raise ConfigurationError if it is not a valid public URL."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _to_invalid_url_error(url) from None
        name = parse_host_name(parts.netloc.lower())
        if parts.scheme not in _DEFAULT_PORTS or name is None or parts.query or parts.fragment:
            raise _to_invalid_url_error(url)
        return cls(parts.scheme, name, None if port == _DEFAULT_PORTS[parts.scheme] else port)

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def host(self) -> str:
        """The value that a browser sends in `Host`."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"


def _to_invalid_url_error(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"the public URL {url!r} is invalid; set it to the address that browsers use,"
        " such as https://headway.example.org"
    )


class Origins:
    def __init__(
        self, names: Iterable[str], *, public_address: PublicAddress | None = None
    ) -> None:
        """Accept requests to the host names in `names`, to loopback and to `public_address`.

        `names` must not contain ports.
        """
        host_names = {name.lower() for name in names}
        for name in sorted(host_names):
            if not _is_host_name(name):
                raise ConfigurationError(
                    f"allowed_hosts contains {name!r}, which is not a host name; write it without"
                    " scheme, port and path, such as headway.example.org"
                )
        self.public_address = public_address
        self._names = LOOPBACK_HOSTS | {name.strip("[]") for name in host_names}
        if public_address is not None:
            self._names |= {public_address.name}

    @property
    def is_secure(self) -> bool:
        """True if browsers reach this server over TLS."""
        return self.public_address is not None and self.public_address.is_secure

    def check_host(self, headers: Mapping[str, str]) -> None:
        if parse_host_name(headers.get("host", "").lower()) not in self._names:
            raise Problem(
                421, "unknown_host", "this host name is not allowed; add it to allowed_hosts"
            )

    def check_origin(
        self, headers: Mapping[str, str], *, scheme: str, method: str, path: str
    ) -> None:
        """Raise a 403 Problem if a page of another origin sent the request.

        The check applies to requests of every method. A link from another site to
        headway's own page is allowed: opening that page changes nothing, and it cannot be framed.
        """
        is_foreign = headers.get("sec-fetch-site") not in (None, "same-origin", "none")
        origin = headers.get("origin")
        if (is_foreign and not (is_page_path(path) and _is_navigation(headers, method))) or (
            origin is not None and not self._is_own_origin(origin.lower(), headers, scheme)
        ):
            raise Problem(403, "cross_origin", CROSS_ORIGIN_DETAIL)

    def _is_own_origin(self, origin: str, headers: Mapping[str, str], scheme: str) -> bool:
        host = headers.get("host", "").lower()
        if self.public_address is not None:
            if origin == self.public_address.origin:
                return True
            # Otherwise a page of the same host without TLS could call the server.
            if host == self.public_address.host:
                return False
        return origin == f"{scheme}://{host}"


def _is_host_name(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return _NAME_ALONE.fullmatch(name) is not None
    return True


def is_page_path(path: str) -> bool:
    return path in PAGE_PATHS or path.startswith(PAGE_PREFIX)


def _is_navigation(headers: Mapping[str, str], method: str) -> bool:
    """Return True if a browser sent the request to open a link as a top-level document."""
    return (
        method in READ_METHODS
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


@lru_cache(maxsize=100)
def parse_host_name(host: str) -> str | None:
    """Return the host name in a `Host` header without the port, or None if it is invalid.

    `host` must be in lower case. The result is cached, because most requests send the same value.
    """
    match = _HOST.fullmatch(host)
    return None if match is None else match["name"].strip("[]")
