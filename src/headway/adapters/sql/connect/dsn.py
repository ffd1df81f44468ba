"""Parse and check database URLs before any connection is made.

A driver may ignore, misread or reject an unknown parameter, and it does so only when it connects.
So each driver has a list of allowed parameters, which are converted here. Any other parameter is a
ConfigurationError at start.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import parse_qsl

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from headway.adapters.sql.connect.tls import TLS_FILES, load_tls_context
from headway.core.errors import ConfigurationError

Driver = Literal["sqlite", "postgres", "mysql"]

MEMORY: Final = ":memory:"

DRIVERS: Final[Mapping[str, Driver]] = {
    "sqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
    "postgres": "postgres",
    "postgresql": "postgres",
    "postgresql+asyncpg": "postgres",
    "mysql": "mysql",
    "mysql+aiomysql": "mysql",
    "mariadb": "mysql",
    "mariadb+aiomysql": "mysql",
}
PARAMETERS: Final[Mapping[Driver, frozenset[str]]] = {
    "sqlite": frozenset(),
    "postgres": TLS_FILES | {"sslmode", "command_timeout", "application_name"},
    "mysql": TLS_FILES | {"charset", "unix_socket", "init_command", "program_name", "autocommit"},
}
REFUSED_PARAMETERS: Final[Mapping[str, str]] = {
    "connect_timeout": "every address is probed for 5 s, and that is not configurable",
    "read_timeout": "the driver has no such limit",
    "write_timeout": "the driver has no such limit",
}
SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of the database, parsed from a URL."""

    driver: Driver
    database: str  # On SQLite, the path of the file or `:memory:`.
    display: str  # The URL for messages and logs, without its password and parameters.
    password: str = field(default="", repr=False)
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The keyword arguments for the driver's `connect`."""

    @property
    def is_memory(self) -> bool:
        return self.driver == "sqlite" and self.database == MEMORY

    @property
    def file(self) -> Path | None:
        """The SQLite file, or None for `:memory:` and for a server."""
        return Path(self.database) if self.driver == "sqlite" and self.database != MEMORY else None


def parse_addresses(urls: Sequence[str]) -> tuple[Address, ...]:
    """Parse the URLs, most preferred first. Raise ConfigurationError if one is invalid."""
    if not urls:
        raise ConfigurationError("no database URL is given; give at least one")
    labels = [f"database URL {n}" for n in range(1, len(urls) + 1)]
    if len(urls) == 1:
        labels = ["the database URL"]
    addresses = tuple(_parse_address(url, label) for url, label in zip(urls, labels, strict=True))
    drivers = {address.driver for address in addresses}
    if len(drivers) > 1:
        named = ", ".join(sorted(drivers))
        raise ConfigurationError(f"the database URLs mix drivers ({named}); use one for all")
    if len(addresses) > 1 and drivers == {"sqlite"}:
        raise ConfigurationError("SQLite is one file and has no failover; give one database URL")
    if len({address.display for address in addresses}) < len(addresses):
        raise ConfigurationError("a database URL is given twice; give each address once")
    return addresses


def _parse_address(text: str, label: str) -> Address:
    if not isinstance(text, str):
        _refuse(label, f"is a {type(text).__name__}, not text; write it like sqlite:///headway.db")
    if text.count("://") > 1:
        _refuse(label, "contains another URL; separate URLs by spaces, or give them one by one")
    # Split here, because SQLAlchemy silently drops a parameter without a value.
    head, _, query = text.partition("?")
    try:
        url = make_url(head)
    except (ArgumentError, ValueError):
        _refuse(
            label,
            "cannot be read; write it like postgresql://user:password@host:5432/database, "
            "with @ : / ? # in the password as %40 %3A %2F %3F %23",
        )
    driver = DRIVERS.get(url.drivername)
    if driver is None:
        _refuse(
            label, f"has the unknown scheme {url.drivername!r}; use one of {_join_sorted(DRIVERS)}"
        )
    parameters = _parse_parameters(query, driver, label)
    match driver:
        case "sqlite":
            return _to_sqlite_address(url, label)
        case "postgres":
            _check_server(url, label)
            _require_extra("asyncpg", "PostgreSQL needs the extra: pip install 'headway[postgres]'")
            return _to_postgres_address(url, parameters, label)
        case "mysql":
            _check_server(url, label)
            _require_extra(
                "aiomysql", "MariaDB/MySQL needs the extra: pip install 'headway[mysql]'"
            )
            return _to_mysql_address(url, parameters, label)


def _parse_parameters(query: str, driver: Driver, label: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        _refuse(label, "gives a parameter more than once; give each parameter once")
    for name, value in pairs:
        # The name may be the rest of a password that contains a question mark: do not show it.
        if not name.isidentifier():
            _refuse(label, "has an invalid parameter after the ?; write a ? in the password as %3F")
        if name in REFUSED_PARAMETERS:
            _refuse(
                label, f"has {name!r}, which is refused: {REFUSED_PARAMETERS[name]}; leave it out"
            )
        if name not in PARAMETERS[driver]:
            allowed = _join_sorted(PARAMETERS[driver]) or "none"
            _refuse(label, f"has the unknown parameter {name!r}; allowed: {allowed}")
        if not value:
            _refuse(label, f"gives no value for {name!r}")
    return parameters


def _to_sqlite_address(url: URL, label: str) -> Address:
    if url.host is not None:
        _refuse(label, "names a host; a file is written with three slashes: sqlite:///headway.db")
    database = url.database or MEMORY
    return Address(driver="sqlite", database=database, display=f"sqlite:///{database}")


def _check_server(url: URL, label: str) -> None:
    host = url.host or ""
    # The text after an unescaped @ is the rest of the password: do not show it.
    if "@" in host:
        _refuse(label, "has more than one @; write an @ in the password as %40")
    if "," in host:
        _refuse(label, "names several hosts; give several database URLs instead")
    if url.port is not None and not 0 < url.port < 65536:
        _refuse(label, "has an invalid port; use 1 to 65535")
    if not url.database:
        _refuse(label, "names no database; add it after the host: /database")


def _to_postgres_address(url: URL, parameters: Mapping[str, str], label: str) -> Address:
    arguments: dict[str, Any] = url.translate_connect_args(username="user")
    if TLS_FILES & parameters.keys():
        if "sslmode" in parameters:
            _refuse(label, "has both 'sslmode' and 'ssl_*' files; use only one of the two")
        # Without a host the driver connects to a Unix socket and silently uses no TLS.
        if not url.host:
            _refuse(label, "has 'ssl_*' files but no host to verify; name the host")
        arguments["ssl"] = load_tls_context(parameters, label)
    elif "sslmode" in parameters:
        arguments["ssl"] = _check_choice(SSL_MODES, parameters["sslmode"], "sslmode", label)
    if "command_timeout" in parameters:
        arguments["command_timeout"] = _parse_seconds(parameters["command_timeout"], label)
    # The driver has no argument for the name, so it is sent as a session setting.
    if "application_name" in parameters:
        arguments["server_settings"] = {"application_name": parameters["application_name"]}
    return _to_server_address("postgres", url.set(drivername="postgresql"), arguments)


def _to_mysql_address(url: URL, parameters: Mapping[str, str], label: str) -> Address:
    # The dialect sets the flag for *found* rows. Without it, an UPDATE that changes nothing
    # counts no row, and a guard that matched would seem to have failed.
    url = url.set(drivername="mysql+aiomysql")
    _, defaults = url.get_dialect()().create_connect_args(url)
    arguments = dict(defaults) | {name: parameters[name] for name in parameters.keys() - TLS_FILES}
    arguments.setdefault("charset", "utf8mb4")
    _check_charset(arguments["charset"], label)
    if "autocommit" in parameters:
        value = _check_choice(BOOLEANS, parameters["autocommit"].lower(), "autocommit", label)
        arguments["autocommit"] = BOOLEANS[value]
    if TLS_FILES & parameters.keys():
        arguments["ssl"] = load_tls_context(parameters, label)
    shown = {"unix_socket": parameters["unix_socket"]} if "unix_socket" in parameters else {}
    return _to_server_address("mysql", url.set(drivername="mysql", query=shown), arguments)


def _to_server_address(driver: Driver, url: URL, arguments: Mapping[str, Any]) -> Address:
    return Address(
        driver=driver,
        database=url.database or "",
        display=url.render_as_string(hide_password=True),
        password=url.password or "",
        arguments=arguments,
    )


def _check_charset(name: str, label: str) -> None:
    from pymysql.charset import charset_by_name  # noqa: PLC0415  (an optional extra)

    if charset_by_name(name) is None:
        _refuse(label, f"has the unknown charset {name!r}; use utf8mb4")


def _parse_seconds(text: str, label: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (isfinite(seconds) and seconds > 0):
        _refuse(label, "has a 'command_timeout' that is not a number of seconds above 0")
    return seconds


def _check_choice(choices: Iterable[str], value: str, name: str, label: str) -> str:
    if value not in choices:
        _refuse(label, f"has an invalid {name!r}; use one of {_join_sorted(choices)}")
    return value


def _require_extra(module: str, advice: str) -> None:
    if find_spec(module) is None:
        raise ConfigurationError(advice)


def _join_sorted(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _refuse(label: str, problem: str) -> NoReturn:
    raise ConfigurationError(f"{label} {problem}")
