"""Which names this server answers to, and whose pages may call it (S3)."""

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
    "a page of another origin may not call this server; if it is its own page, behind a proxy that"
    " speaks TLS, then HEADWAY_PUBLIC_URL must tell where browsers find it"
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
    """Where people find this server when something stands in front of it, such as a proxy."""

    scheme: str
    name: str
    port: int | None
    """None: the usual one, which browsers leave out."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """ConfigurationError says how it must be written."""
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
        """As a browser sends it in `Host`."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"


def _to_invalid_url_error(url: str) -> ConfigurationError:
    return ConfigurationError(
        f"the public URL {url!r} must be where a browser finds this server,"
        " such as https://headway.example.org"
    )


class Origins:
    def __init__(
        self, names: Iterable[str], *, public_address: PublicAddress | None = None
    ) -> None:
        """`names` are those by which this server may be called, without their ports."""
        given = {name.lower() for name in names}
        for name in sorted(given):
            if not _is_host_name(name):
                raise ConfigurationError(
                    f"allowed_hosts has {name!r}, which is no name of a host; write it without"
                    " scheme, port and path, such as headway.example.org"
                )
        self.public_address = public_address
        self._names = LOOPBACK_HOSTS | {name.strip("[]") for name in given}
        if public_address is not None:
            self._names |= {public_address.name}

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by TLS."""
        return self.public_address is not None and self.public_address.is_secure

    def check_host(self, headers: Mapping[str, str]) -> None:
        if parse_host_name(headers.get("host", "").lower()) not in self._names:
            raise Problem(
                421, "unknown_host", "this server does not answer to that Host; see allowed_hosts"
            )

    def check_origin(
        self, headers: Mapping[str, str], *, scheme: str, method: str, path: str
    ) -> None:
        """A browser's request comes from our own page, whatever the method.

        But for a link to the page, which anybody may set: to open it changes nothing, and nobody
        may frame it.
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
            if (
                host == self.public_address.host
            ):  # Else a page without TLS could call the one with it.
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
    """Whether a person follows a link with it, and sees the answer in a window of its own."""
    return (
        method in READ_METHODS
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


@lru_cache(maxsize=100)
def parse_host_name(host: str) -> str | None:
    """Without its port, in lower case; None: it is no host. Most requests say the same."""
    found = _HOST.fullmatch(host)
    return None if found is None else found["name"].strip("[]")
