"""Redis URLs, read and checked once, before anything is connected.

    redis://[user:password@]host[:port][/number]     one server
    rediss://…                                        the same over TLS
    redis+cluster://[user:password@]host[:port][,host[:port]]…
    rediss+cluster://…                                a cluster, by any of its servers

Over TLS `ssl_ca`, `ssl_cert` and `ssl_key` name PEM files. Other parameters are refused.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import parse_qsl, unquote

from headway.core.errors import ConfigurationError

DEFAULT_PORT: Final = 6379
EXAMPLE_URL: Final = "redis://user:password@host:6379/0"
_SCHEMES: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster")
_TLS_FILES: Final = {
    "ssl_ca": "ssl_ca_certs",
    "ssl_cert": "ssl_certfile",
    "ssl_key": "ssl_keyfile",
}


class RedisNode(NamedTuple):
    """Where one server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    nodes: tuple[RedisNode, ...]
    is_cluster: bool
    is_tls: bool
    connection_arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What each connection is made with: who we are, the certificates, the number."""

    @property
    def display(self) -> str:
        """For people: without the password."""
        return ",".join(str(node) for node in self.nodes)


def parse_redis_url(text: str, *, setting: str = "the Redis URL") -> RedisAddress:
    """The address, or ConfigurationError that names the place, the fault and what to do."""
    if find_spec("redis") is None:
        raise ConfigurationError("Redis needs the extra: pip install 'headway[redis]'")
    scheme, mark, rest = text.partition("://")
    if not mark:
        _refuse(setting, f"cannot be read; write it like {EXAMPLE_URL}")
    if scheme not in _SCHEMES:
        _refuse(setting, f"has the unknown scheme {scheme!r}; use one of {', '.join(_SCHEMES)}")
    if "#" in rest:
        _refuse(setting, "has a # in it; write @ : / ? # in the password as %40 %3A %2F %3F %23")
    is_tls, is_cluster = scheme.startswith("rediss"), scheme.endswith("+cluster")
    head, _, query = rest.partition("?")
    server, _, path = head.partition("/")
    who, _, hosts = server.rpartition("@")
    nodes = tuple(_parse_node(host, setting) for host in hosts.split(","))
    if len(nodes) > 1 and not is_cluster:
        _refuse(setting, f"names several servers; write {scheme}+cluster:// if they are a cluster")
    return RedisAddress(
        nodes=nodes,
        is_cluster=is_cluster,
        is_tls=is_tls,
        connection_arguments={
            **_parse_credentials(who, setting),
            **_parse_database(path, setting, is_cluster=is_cluster),
            **_parse_tls_files(query, setting, is_tls=is_tls),
        },
    )


def _parse_node(text: str, place: str) -> RedisNode:
    host, mark, port = text.rpartition(":")
    if not mark or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        _refuse(place, "has a host with colons; write an IPv6 address in brackets, like [::1]")
    if not host:
        _refuse(place, f"names no host; write it like {EXAMPLE_URL}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        _refuse(place, "has a port that is not a number from 1 to 65535")
    return RedisNode(host, int(port))


def _parse_credentials(who: str, place: str) -> dict[str, str]:
    if "@" in who or "/" in who:
        _refuse(place, "has a bare @ or / in the password; write them as %40 and %2F")
    user, _, password = who.partition(":")
    named = {"username": unquote(user), "password": unquote(password)}
    return {name: value for name, value in named.items() if value}


def _parse_database(path: str, place: str, *, is_cluster: bool) -> dict[str, int]:
    if is_cluster:
        if path not in {"", "0"}:
            _refuse(place, "has a database number; a cluster has only 0, leave it out")
        return {}
    if path and not (path.isascii() and path.isdigit()):
        _refuse(place, "has a path that is no number; it is the database's, mostly 0")
    return {"db": int(path or 0)}


def _parse_tls_files(query: str, place: str, *, is_tls: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    given = dict(pairs)
    unknown = sorted(given.keys() - _TLS_FILES.keys())
    if unknown:
        known = ", ".join(_TLS_FILES)
        _refuse(place, f"has the unknown parameter {unknown[0]!r}; known are {known}")
    if len(given) < len(pairs):
        _refuse(place, "has a parameter twice; give each once")
    if given and not is_tls:
        _refuse(place, f"has {min(given)!r} without TLS; write rediss:// or leave it out")
    if ("ssl_cert" in given) != ("ssl_key" in given):
        _refuse(place, "has only one of 'ssl_cert' and 'ssl_key'; give both, or neither")
    for name, path in sorted(given.items()):
        _check_pem(name, path, place)
    return {_TLS_FILES[name]: path for name, path in given.items()}


def _check_pem(name: str, path: str, place: str) -> None:
    try:
        Path(path).read_bytes()
        if name == "ssl_ca":
            ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        _refuse(place, f"names {path!r} as {name!r}, which holds no certificate; name a PEM file")
    except OSError as error:
        _refuse(place, f"names {path!r} as {name!r}, which cannot be read ({error.strerror})")


def _refuse(place: str, problem: str) -> NoReturn:
    raise ConfigurationError(f"{place} {problem}")
