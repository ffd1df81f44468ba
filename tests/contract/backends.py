"""The databases on which the contract must hold: each is empty and new for every test."""

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
# The statements restore the rows of a new database. The epoch stays: it never decreases.
EMPTY: Final = (
    *(f"DELETE FROM {table.name}" for table in metadata.sorted_tables if table is not stream),  # noqa: S608
    *(
        f"INSERT INTO {lanes.name} (name, max_concurrent, is_paused, revision, is_set_by_hand)"  # noqa: S608
        f" VALUES ('{name}', {limit}, 0, 0, 0)"
        for name, limit in DEFAULT_LIMITS.items()
        if name != FLOW_LANE  # Created with the first task.
    ),
    "UPDATE stream SET seq = 0, pruned_seq = 0",
)


@dataclass(frozen=True, slots=True)
class DatabaseTarget:
    """A database with the schema and no runs, by the URLs that lead to it."""

    backend: str
    urls: Sequence[str]

    @property
    def is_server(self) -> bool:
        return not self.backend.startswith("sqlite")

    @property
    def is_memory(self) -> bool:
        return self.backend == "sqlite-memory"


@asynccontextmanager
async def open_target(target: DatabaseTarget, clock: FakeClock) -> AsyncIterator[SqlStore]:
    store = await open_store(target.urls, now=clock)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_second_store(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> AsyncIterator[SqlStore]:
    """Open a second store on the same database with its own writer, as another process does.

    A database in memory cannot be opened twice. There the two stores share the database and
    its one connection, as the readers do.
    """
    if not target.is_memory:
        async with open_target(target, clock) as second:
            yield second
        return
    (address,) = parse_addresses(target.urls)
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
async def open_link(store: SqlStore, target: DatabaseTarget) -> AsyncIterator[Link]:
    """Open a connection as writers use it, for tests that execute the parts of a batch."""
    address = parse_addresses(target.urls)[0]
    link = await create_link_source(store._database, address).connect()
    try:
        yield link
    finally:
        await link.rollback()
        await link.close()


@contextmanager
def open_database(server: PostgresServer | MariaDBServer) -> Iterator[str]:
    """Create a database with the schema, and yield its name."""
    name = f"contract_{uuid4().hex[:12]}"
    server.create_database(name)
    try:
        run_in_thread(lambda: upgrade(server.url(name)))
        yield name
    finally:
        server.drop_database(name)


@contextmanager
def open_database_url(
    backend: str, request: pytest.FixtureRequest, *, name: str = "headway"
) -> Iterator[str]:
    """Create a database with the schema, and yield its URL."""
    if backend == "sqlite":
        path = request.getfixturevalue("tmp_path") / f"{name}.db"
        shutil.copy(request.getfixturevalue("upgraded_file"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    with open_database(server) as database:
        yield server.url(database)


@contextmanager
def closed_port() -> Iterator[int]:
    """Yield a port that refuses connections and that no other process can bind."""
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


def empty_database(server: PostgresServer | MariaDBServer, name: str) -> None:
    if isinstance(server, PostgresServer):
        server.execute(f"DO $$ BEGIN {'; '.join(EMPTY)}; END $$", database=name)
    else:
        server.execute(f"USE {name}", *EMPTY)


def run_in_thread(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine in a thread of its own, with or without a running event loop."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()


async def read_all(store: SqlStore) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table except `writers`, to check that nothing changed."""
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
