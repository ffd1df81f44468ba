"""Where the writer's links come from."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import Address, Driver
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.adapters.sql.write.links.driver_link import Link
from headway.adapters.sql.write.links.sqlite_link import FileGate, MemoryGate, SqliteLink

GATE_SUFFIX: Final = ".lock"


class Source(Protocol):
    async def connect(self) -> Link: ...

    def check(self) -> None:
        """Raise ConnectionError when the link in use leads to a node that is no longer ours."""
        ...

    def saw(self, seq: int, *, epoch: int) -> None:
        """Remember that `seq` is committed, in this epoch, where the link in use leads."""
        ...

    def lost(self) -> None: ...


class SqliteSource:
    def __init__(self, open_link: Callable[[], SqliteLink]) -> None:
        self._open_link = open_link

    async def connect(self) -> Link:
        return self._open_link()

    def check(self) -> None:
        """Do nothing: the link compares its file itself, once it holds the gate."""

    def saw(self, seq: int, *, epoch: int) -> None:
        """A file cannot be behind itself."""

    def lost(self) -> None:
        """There is no other place to look."""


class ServerSource:
    def __init__(self, connector: Connector, prepare: Callable[[RawConnection], Link]) -> None:
        self._connector = connector
        self._prepare = prepare
        self._raw: RawConnection = None

    async def connect(self) -> Link:
        self._raw = await self._connector.connect(Purpose.WRITE)
        return self._prepare(self._raw)

    def check(self) -> None:
        if not self._connector.is_current(self._raw):
            raise ConnectionError("the process has moved to another node")

    def saw(self, seq: int, *, epoch: int) -> None:
        self._connector.saw(seq, epoch=epoch, on=self._raw)

    def lost(self) -> None:
        self._connector.lost()


def source_for(database: Database, address: Address) -> Source:
    """The source that fits the driver."""
    if database.connector is not None:
        return _server_source(database.connector, database.driver)
    if database.memory_connection is not None:
        assert database.memory_gate is not None
        shared: sqlite3.Connection = database.memory_connection
        gate = MemoryGate(database.memory_gate)
        return SqliteSource(lambda: SqliteLink(shared, gate))

    file = database.file
    assert file is not None

    def open_file() -> SqliteLink:
        gate = FileGate(Path(address.database + GATE_SUFFIX))
        return SqliteLink(file.open(), gate, file=file)

    return SqliteSource(open_file)


def _server_source(connector: Connector, driver: Driver) -> Source:
    # Whoever uses one of them does not wait for the other's dialect to be imported.
    if driver == "postgres":
        from headway.adapters.sql.write.links.postgres_link import PostgresLink  # noqa: PLC0415

        return ServerSource(connector, PostgresLink)
    from headway.adapters.sql.write.links.mysql_link import MysqlLink  # noqa: PLC0415

    return ServerSource(connector, MysqlLink)
