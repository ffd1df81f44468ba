"""The databases to measure on: a new one for every measurement, with real durability."""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import sqlite_version
from typing import Final
from uuid import uuid4

from headway.adapters.sql.connect.sqlite import SYNCHRONOUS, Durability
from tests.servers import MariaDBServer, Missing, PostgresServer, start_mariadb, start_postgres

ROOT: Final = Path(__file__).parents[2]
FAMILIES: Final = ("sqlite", "postgres", "mariadb")
# The servers of the tests are fast and lose commits at a power cut; these do not.
POSTGRES_SETTINGS: Final = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
}
MARIADB_SETTINGS: Final = {
    "innodb-flush-log-at-trx-commit": "1",
    "innodb-doublewrite": "1",
    "innodb-buffer-pool-size": "256M",
    "innodb-log-file-size": "1G",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One database system, with one durability."""

    name: str
    family: str
    title: str
    is_usual: bool = True
    """True if this is the family's default durability."""
    durability: Durability
    settings: str
    """The failure that a commit survives, in the system's own terms."""
    new_database: Callable[[], AbstractContextManager[str]]
    """Opens the URL of an empty database, which is removed at the end."""
    settle: Callable[[str], None]
    """Makes the system finish deferred work, so that the next measurement does not include it."""


@dataclass(frozen=True, slots=True)
class Places:
    all: tuple[Place, ...]
    versions: dict[str, str]
    missing: tuple[str, ...]


@contextmanager
def open_places(families: Collection[str]) -> Iterator[Places]:
    """Start what is needed. A server that this machine lacks is listed in `missing`."""
    places: list[Place] = []
    versions: dict[str, str] = {}
    missing: list[str] = []
    with ExitStack() as stack:
        if "sqlite" in families:
            # Below the project, because /tmp may be in memory, where durability costs nothing.
            cache = ROOT / ".cache"
            cache.mkdir(exist_ok=True)
            folder = Path(tempfile.mkdtemp(prefix="bench-", dir=cache))
            stack.callback(shutil.rmtree, folder)
            places += [_sqlite(folder, "process"), _sqlite(folder, "power")]
            versions["SQLite"] = sqlite_version
        try:
            if "postgres" in families:
                postgres = start_postgres(settings=POSTGRES_SETTINGS)
                stack.callback(postgres.stop)
                places.append(_postgres(postgres))
                versions["PostgreSQL"] = postgres.version
        except Missing as reason:
            missing.append(str(reason))
        try:
            if "mariadb" in families:
                mariadb = start_mariadb(settings=MARIADB_SETTINGS)
                stack.callback(mariadb.stop)
                places.append(_mariadb(mariadb))
                versions["MariaDB"] = mariadb.version
        except Missing as reason:
            missing.append(str(reason))
        yield Places(tuple(places), versions, tuple(missing))


def _sqlite(folder: Path, durability: Durability) -> Place:
    @contextmanager
    def new_database() -> Iterator[str]:
        inner = Path(tempfile.mkdtemp(dir=folder))
        try:
            yield f"sqlite:///{inner / 'bench.db'}"
        finally:
            shutil.rmtree(inner)

    return Place(
        name=f"sqlite-{durability}",
        family="sqlite",
        is_usual=durability == "process",
        title=f"SQLite ({durability})",
        durability=durability,
        settings=f"write-ahead log, synchronous = {SYNCHRONOUS[durability]}",
        new_database=new_database,
        settle=_leave_alone,
    )


def _leave_alone(url: str) -> None:
    """A file finishes its deferred work when it is closed."""


def _postgres(server: PostgresServer) -> Place:
    def settle(url: str) -> None:
        # The autovacuum would otherwise run within the minute, in the middle of a measurement.
        server.execute("VACUUM ANALYZE", "CHECKPOINT", database=url.rpartition("/")[2])

    return Place(
        name="postgres",
        family="postgres",
        title="PostgreSQL",
        durability="power",
        settings="fsync = on, synchronous_commit = on",
        new_database=lambda: _database_on(server),
        settle=settle,
    )


def _mariadb(server: MariaDBServer) -> Place:
    return Place(
        name="mariadb",
        family="mariadb",
        title="MariaDB",
        durability="power",
        settings="innodb_flush_log_at_trx_commit = 1, doublewrite on",
        new_database=lambda: _database_on(server),
        settle=_leave_alone,
    )


@contextmanager
def _database_on(server: PostgresServer | MariaDBServer) -> Iterator[str]:
    name = f"bench_{uuid4().hex[:12]}"
    server.create_database(name)
    try:
        yield server.url(name)
    finally:
        server.drop_database(name)
