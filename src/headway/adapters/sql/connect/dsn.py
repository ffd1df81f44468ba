"""Database URLs, read and checked once, before anything is connected.

A raw driver ignores, misreads or chokes on what it does not know, and only when it connects. So the
parameters are a whitelist per driver, each is converted here, and anything else stops the start.
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
    """One place where the database may be."""

    driver: Driver
    database: str  # SQLite: the file's path, or `:memory:`.
    display: str  # For people: without the password and without parameters.
    password: str = field(default="", repr=False)
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What the driver's `connect` is called with."""

    @property
    def is_memory(self) -> bool:
        return self.driver == "sqlite" and self.database == MEMORY

    @property
    def file(self) -> Path | None:
        """The file of SQLite; None for `:memory:` and for a server."""
        return Path(self.database) if self.driver == "sqlite" and self.database != MEMORY else None


def parse_addresses(urls: Sequence[str]) -> tuple[Address, ...]:
    """Read the URLs, in the order in which they will be tried, or say what is wrong with one."""
    if not urls:
        raise ConfigurationError("no database URL is given; give at least one")
    addresses = tuple(
        _parse_address(url, f"database URL {n}") for n, url in enumerate(urls, start=1)
    )
    drivers = {address.driver for address in addresses}
    if len(drivers) > 1:
        named = ", ".join(sorted(drivers))
        raise ConfigurationError(f"the database URLs mix drivers ({named}); use one for all")
    if len(addresses) > 1 and drivers == {"sqlite"}:
        raise ConfigurationError("SQLite is one file and has no failover; give one database URL")
    if len({address.display for address in addresses}) < len(addresses):
        raise ConfigurationError("a database URL is given twice; give each address once")
    return addresses


def _parse_address(text: str, place: str) -> Address:
    if not isinstance(text, str):
        _refuse(place, f"is a {type(text).__name__}, not text; write it like sqlite:///headway.db")
    if text.count("://") > 1:
        _refuse(place, "holds another URL; separate several by blanks, or give them one by one")
    # Split by hand: SQLAlchemy would drop a parameter without a value and say nothing.
    head, _, query = text.partition("?")
    try:
        url = make_url(head)
    except (ArgumentError, ValueError):
        _refuse(
            place,
            "cannot be read; write it like postgresql://user:password@host:5432/database, "
            "with @ : / ? # in the password as %40 %3A %2F %3F %23",
        )
    driver = DRIVERS.get(url.drivername)
    if driver is None:
        _refuse(
            place, f"has the unknown scheme {url.drivername!r}; use one of {_join_sorted(DRIVERS)}"
        )
    parameters = _parse_parameters(query, driver, place)
    match driver:
        case "sqlite":
            return _to_sqlite_address(url, place)
        case "postgres":
            _check_server(url, place)
            _require_extra("asyncpg", "PostgreSQL needs the extra: pip install 'headway[postgres]'")
            return _to_postgres_address(url, parameters, place)
        case "mysql":
            _check_server(url, place)
            _require_extra(
                "aiomysql", "MariaDB/MySQL needs the extra: pip install 'headway[mysql]'"
            )
            return _to_mysql_address(url, parameters, place)


def _parse_parameters(query: str, driver: Driver, place: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    if len(parameters) != len(pairs):
        _refuse(place, "gives a parameter more than once; give each once")
    for name, value in pairs:
        # It may be the rest of a password with a question mark: this must not repeat it.
        if not name.isidentifier():
            _refuse(place, "has something that is no parameter after the ?; write ? as %3F")
        if name in REFUSED_PARAMETERS:
            _refuse(
                place, f"has {name!r}, which is refused: {REFUSED_PARAMETERS[name]}; leave it out"
            )
        if name not in PARAMETERS[driver]:
            allowed = _join_sorted(PARAMETERS[driver]) or "none"
            _refuse(place, f"has the unknown parameter {name!r}; allowed: {allowed}")
        if not value:
            _refuse(place, f"gives no value for {name!r}")
    return parameters


def _to_sqlite_address(url: URL, place: str) -> Address:
    if url.host is not None:
        _refuse(place, "names a host; a file is written with three slashes: sqlite:///headway.db")
    database = url.database or MEMORY
    return Address(driver="sqlite", database=database, display=f"sqlite:///{database}")


def _check_server(url: URL, place: str) -> None:
    host = url.host or ""
    # What follows an unescaped @ is the rest of the password: this message must not repeat it.
    if "@" in host:
        _refuse(place, "has more than one @; write one in the password as %40")
    if "," in host:
        _refuse(place, "names several hosts; give several database URLs instead")
    if url.port is not None and not 0 < url.port < 65536:
        _refuse(place, "has an impossible port; use 1 to 65535")
    if not url.database:
        _refuse(place, "names no database; add it after the host: /database")


def _to_postgres_address(url: URL, parameters: Mapping[str, str], place: str) -> Address:
    arguments: dict[str, Any] = url.translate_connect_args(username="user")
    if TLS_FILES & parameters.keys():
        if "sslmode" in parameters:
            _refuse(place, "has both 'sslmode' and 'ssl_*' files; use the one or the others")
        # Without a host the driver goes to a Unix socket, where it drops TLS without a word.
        if not url.host:
            _refuse(place, "has 'ssl_*' files but no host to verify; name the host")
        arguments["ssl"] = load_tls_context(parameters, place)
    elif "sslmode" in parameters:
        arguments["ssl"] = _check_choice(SSL_MODES, parameters["sslmode"], "sslmode", place)
    if "command_timeout" in parameters:
        arguments["command_timeout"] = _parse_seconds(parameters["command_timeout"], place)
    # Not an argument of the driver: it travels as a setting of the session.
    if "application_name" in parameters:
        arguments["server_settings"] = {"application_name": parameters["application_name"]}
    return _to_server_address("postgres", url.set(drivername="postgresql"), arguments)


def _to_mysql_address(url: URL, parameters: Mapping[str, str], place: str) -> Address:
    # The dialect asks the server for *found* rows. Without that flag an UPDATE that changes
    # nothing counts no row, and a guard that matched looks like one that failed.
    url = url.set(drivername="mysql+aiomysql")
    _, asked = url.get_dialect()().create_connect_args(url)
    arguments = dict(asked) | {name: parameters[name] for name in parameters.keys() - TLS_FILES}
    arguments.setdefault("charset", "utf8mb4")
    _check_charset(arguments["charset"], place)
    if "autocommit" in parameters:
        word = _check_choice(BOOLEANS, parameters["autocommit"].lower(), "autocommit", place)
        arguments["autocommit"] = BOOLEANS[word]
    if TLS_FILES & parameters.keys():
        arguments["ssl"] = load_tls_context(parameters, place)
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


def _check_charset(name: str, place: str) -> None:
    from pymysql.charset import charset_by_name  # noqa: PLC0415  (an optional extra)

    if charset_by_name(name) is None:
        _refuse(place, f"has the unknown charset {name!r}; use utf8mb4")


def _parse_seconds(text: str, place: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (isfinite(seconds) and seconds > 0):
        _refuse(place, "has a 'command_timeout' that is not a number of seconds above 0")
    return seconds


def _check_choice(words: Iterable[str], word: str, name: str, place: str) -> str:
    if word not in words:
        _refuse(place, f"has a wrong {name!r}; use one of {_join_sorted(words)}")
    return word


def _require_extra(module: str, advice: str) -> None:
    if find_spec(module) is None:
        raise ConfigurationError(advice)


def _join_sorted(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _refuse(place: str, problem: str) -> NoReturn:
    raise ConfigurationError(f"{place} {problem}")
