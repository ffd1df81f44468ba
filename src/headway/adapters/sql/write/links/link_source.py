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
from headway.adapters.sql.write.links.sqlite_link import FileLock, MemoryLock, SqliteLink

LOCK_SUFFIX: Final = ".lock"


class LinkSource(Protocol):
    async def connect(self) -> Link: ...

    def check_node(self) -> None:
        """Raise ConnectionError when the link in use leads to a node that is no longer ours."""
        ...

    def note_commit(self, seq: int, *, epoch: int) -> None:
        """Remember that `seq` is committed, in this epoch, where the link in use leads."""
        ...

    def note_disconnect(self) -> None: ...


class SqliteLinkSource:
    def __init__(self, open_link: Callable[[], SqliteLink]) -> None:
        self._open_link = open_link

    async def connect(self) -> Link:
        return self._open_link()

    def check_node(self) -> None:
        """Do nothing: the link compares its file itself, once it holds the gate."""

    def note_commit(self, seq: int, *, epoch: int) -> None:
        """A file cannot be behind itself."""

    def note_disconnect(self) -> None:
        """There is no other place to look."""


class ServerLinkSource:
    def __init__(self, connector: Connector, prepare: Callable[[RawConnection], Link]) -> None:
        self._connector = connector
        self._create_link = prepare
        self._connection: RawConnection = None

    async def connect(self) -> Link:
        self._connection = await self._connector.connect(Purpose.WRITE)
        return self._create_link(self._connection)

    def check_node(self) -> None:
        if not self._connector.is_current(self._connection):
            raise ConnectionError("the process has moved to another node")

    def note_commit(self, seq: int, *, epoch: int) -> None:
        self._connector.note_commit(seq, epoch=epoch, connection=self._connection)

    def note_disconnect(self) -> None:
        self._connector.note_disconnect()


def create_link_source(database: Database, address: Address) -> LinkSource:
    """The source that fits the driver."""
    if database.connector is not None:
        return _create_server_source(database.connector, database.driver)
    if database.memory_connection is not None:
        assert database.memory_lock is not None
        shared: sqlite3.Connection = database.memory_connection
        gate = MemoryLock(database.memory_lock)
        return SqliteLinkSource(lambda: SqliteLink(shared, gate))

    file = database.file
    assert file is not None

    def open_file() -> SqliteLink:
        gate = FileLock(Path(address.database + LOCK_SUFFIX))
        return SqliteLink(file.open(), gate, file=file)

    return SqliteLinkSource(open_file)


def _create_server_source(connector: Connector, driver: Driver) -> LinkSource:
    # Whoever uses one of them does not wait for the other's dialect to be imported.
    if driver == "postgres":
        from headway.adapters.sql.write.links.postgres_link import PostgresLink  # noqa: PLC0415

        return ServerLinkSource(connector, PostgresLink)
    from headway.adapters.sql.write.links.mysql_link import MysqlLink  # noqa: PLC0415

    return ServerLinkSource(connector, MysqlLink)
