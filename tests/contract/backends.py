"""The places where the contract must hold: each an empty headway database, new for every test."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pytest
import sqlalchemy as sa

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.schema import upgrade_schema
from headway.adapters.sql.sql_store import Listeners, SqlStore, open_store
from headway.adapters.sql.tables import lanes, metadata, stream
from headway.adapters.sql.write.links.driver_link import Link
from headway.adapters.sql.write.links.link_source import create_link_source
from headway.adapters.sql.write.writer import Writer
from headway.core.ids import FLOW_LANE
from headway.core.lane_row import DEFAULT_LIMITS
from headway.ports.store import EventOrigin
from headway.testing import FakeClock
from tests.servers import MariaDBServer, PostgresServer

BACKENDS: Final = (
    "sqlite-file",
    "sqlite-memory",
    "postgres",
    "mariadb",
    "postgres-several",
    "mariadb-several",
)
# What a new database holds, and nothing else. The epoch stays: it never goes back.
EMPTY: Final = (
    *(f"DELETE FROM {table.name}" for table in metadata.sorted_tables if table is not stream),  # noqa: S608
    *(
        f"INSERT INTO {lanes.name} (name, max_concurrent, is_paused, revision, is_set_by_hand)"  # noqa: S608
        f" VALUES ('{name}', {limit}, 0, 0, 0)"
        for name, limit in DEFAULT_LIMITS.items()
        if name != FLOW_LANE  # Made when the first task is.
    ),
    "UPDATE stream SET seq = 0, pruned_seq = 0",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A database with the schema and no runs, by the addresses under which it is found."""

    backend: str
    urls: Sequence[str]

    @property
    def is_server(self) -> bool:
        return not self.backend.startswith("sqlite")

    @property
    def is_memory(self) -> bool:
        return self.backend == "sqlite-memory"


@asynccontextmanager
async def opened(place: Place, clock: FakeClock) -> AsyncIterator[SqlStore]:
    store = await open_store(place.urls, now=clock)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def opened_beside(store: SqlStore, place: Place, clock: FakeClock) -> AsyncIterator[SqlStore]:
    """A second store on the same database, with a writer of its own: another process, nearly.

    What is in memory cannot be opened twice: there the two share the database and its one
    connection, as the readers do.
    """
    if not place.is_memory:
        async with opened(place, clock) as another:
            yield another
        return
    (address,) = parse_addresses(place.urls)
    listeners = Listeners()
    writer = Writer(
        writer_id=str(uuid4()),
        link_source=create_link_source(store._database, address),
        now=clock,
        on_committed=partial(listeners.notify, origin=EventOrigin.OWN),
    )
    await writer.start()
    try:
        yield SqlStore(store._database, writer, listeners)
    finally:
        await writer.close()


@asynccontextmanager
async def linked(store: SqlStore, place: Place) -> AsyncIterator[Link]:
    """A connection as writers have it, for tests that take a batch apart."""
    address = parse_addresses(place.urls)[0]
    link = await create_link_source(store._database, address).connect()
    try:
        yield link
    finally:
        await link.rollback()
        await link.close()


@contextmanager
def database_on(server: PostgresServer | MariaDBServer) -> Iterator[str]:
    """A database with the schema; its name."""
    name = f"contract_{uuid4().hex[:12]}"
    server.create_database(name)
    try:
        run_apart(lambda: upgrade(server.url(name)))
        yield name
    finally:
        server.drop_database(name)


@contextmanager
def url_on(backend: str, request: pytest.FixtureRequest, *, name: str = "headway") -> Iterator[str]:
    """The address of a database with the schema, as programs are given it."""
    if backend == "sqlite":
        path = request.getfixturevalue("tmp_path") / f"{name}.db"
        shutil.copy(request.getfixturevalue("upgraded_file"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    with database_on(server) as database:
        yield server.url(database)


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections, and that nobody else can take meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


async def upgrade(*urls: str) -> str:
    addresses = parse_addresses(urls)
    database = Database(addresses, durability="process")
    try:
        return await upgrade_schema(database, addresses[0])
    finally:
        await database.close()


def empty(server: PostgresServer | MariaDBServer, name: str) -> None:
    if isinstance(server, PostgresServer):
        server.execute(f"DO $$ BEGIN {'; '.join(EMPTY)}; END $$", database=name)
    else:
        server.execute(f"USE {name}", *EMPTY)


def run_apart(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine to its end from plain code, wherever that is called from."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()


async def read_all(store: SqlStore) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table but the writers' own: what "nothing has changed" means."""
    async with store._database.open_snapshot() as connection:
        return {
            table.name: [
                tuple(row)
                for row in await connection.execute(
                    sa.select(*table.c).order_by(*table.primary_key.columns)
                )
            ]
            for table in metadata.sorted_tables
            if table.name != "writers"
        }
