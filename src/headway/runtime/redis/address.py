"""Parses and checks Redis URLs before anything connects.

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
    """The host and port of one server."""

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
    """Arguments for each connection: credentials, TLS files and the database number."""

    @property
    def display(self) -> str:
        """The servers as text for people, without the password."""
        return ",".join(str(node) for node in self.nodes)


def parse_redis_url(text: str) -> RedisAddress:
    """Parse a Redis URL. Raise ConfigurationError if it is invalid.

    The message names the setting `redis_url`, the problem and what to do.
    """
    if find_spec("redis") is None:
        raise ConfigurationError("Redis needs the extra: pip install 'headway[redis]'")
    scheme, separator, rest = text.partition("://")
    if not separator:
        _refuse(f"cannot be read; write it like {EXAMPLE_URL}")
    if scheme not in _SCHEMES:
        _refuse(f"has the unknown scheme {scheme!r}; use one of {', '.join(_SCHEMES)}")
    if "#" in rest:
        _refuse("has a # in it; write @ : / ? # in the password as %40 %3A %2F %3F %23")
    is_tls, is_cluster = scheme.startswith("rediss"), scheme.endswith("+cluster")
    head, _, query = rest.partition("?")
    server, _, path = head.partition("/")
    credentials, _, hosts = server.rpartition("@")
    nodes = tuple(_parse_node(host) for host in hosts.split(","))
    if len(nodes) > 1 and not is_cluster:
        _refuse(f"names several servers; write {scheme}+cluster:// if they are a cluster")
    return RedisAddress(
        nodes=nodes,
        is_cluster=is_cluster,
        is_tls=is_tls,
        connection_arguments={
            **_parse_credentials(credentials),
            **_parse_database(path, is_cluster=is_cluster),
            **_parse_tls_files(query, is_tls=is_tls),
        },
    )


def _parse_node(text: str) -> RedisNode:
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        _refuse("has a host with colons; write an IPv6 address in brackets, like [::1]")
    if not host:
        _refuse(f"has no host; write it like {EXAMPLE_URL}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        _refuse("has a port that is not a number from 1 to 65535")
    return RedisNode(host, int(port))


def _parse_credentials(text: str) -> dict[str, str]:
    if "@" in text or "/" in text:
        _refuse("has a bare @ or / in the password; write them as %40 and %2F")
    user, _, password = text.partition(":")
    credentials = {"username": unquote(user), "password": unquote(password)}
    return {name: value for name, value in credentials.items() if value}


def _parse_database(path: str, *, is_cluster: bool) -> dict[str, int]:
    if is_cluster:
        if path not in {"", "0"}:
            _refuse("has a database number; a cluster has only 0, leave it out")
        return {}
    if path and not (path.isascii() and path.isdigit()):
        _refuse("has a path that is not a number; write the database number, usually 0")
    return {"db": int(path or 0)}


def _parse_tls_files(query: str, *, is_tls: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    unknown = sorted(parameters.keys() - _TLS_FILES.keys())
    if unknown:
        allowed = ", ".join(_TLS_FILES)
        _refuse(f"has the unknown parameter {unknown[0]!r}; allowed: {allowed}")
    if len(parameters) < len(pairs):
        _refuse("has a parameter twice; give each once")
    if parameters and not is_tls:
        _refuse(f"has {min(parameters)!r} without TLS; write rediss:// or leave it out")
    if ("ssl_cert" in parameters) != ("ssl_key" in parameters):
        _refuse("has only one of 'ssl_cert' and 'ssl_key'; give both, or neither")
    for name, path in sorted(parameters.items()):
        _check_pem(name, path)
    return {_TLS_FILES[name]: path for name, path in parameters.items()}


def _check_pem(name: str, path: str) -> None:
    try:
        Path(path).read_bytes()
        if name == "ssl_ca":
            ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        problem = "which contains no certificate; name a PEM file"
        _refuse(f"names {path!r} as {name!r}, {problem}")
    except OSError as error:
        _refuse(f"names {path!r} as {name!r}, which cannot be read ({error.strerror})")


def _refuse(problem: str) -> NoReturn:
    raise ConfigurationError(f"redis_url {problem}")
