"""Open the links of the writer, and follow failovers."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import Address, Driver
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.adapters.sql.write.links.driver_link import Commit, Link, LinkNode
from headway.adapters.sql.write.links.sqlite_link import FileLock, MemoryLock, SqliteLink

LOCK_SUFFIX: Final = ".lock"


class LinkSource(Protocol):
    """Opens links, which are the writer's connections to the database, one at a time."""

    async def connect(self) -> Link: ...

    def note_disconnect(self) -> None:
        """Record that the link was lost, so that `connect` probes all addresses."""
        ...


class SqliteLinkSource:
    """Opens links to a SQLite file, or to the connection of a `:memory:` database."""

    def __init__(self, open_link: Callable[[], SqliteLink]) -> None:
        self._open_link = open_link

    async def connect(self) -> Link:
        return self._open_link()

    def note_disconnect(self) -> None:
        """Do nothing: there are no other addresses."""


class ServerNode:
    """The `LinkNode` of one connection to a database server."""

    def __init__(self, connector: Connector, connection: RawConnection) -> None:
        self._connector = connector
        self._connection = connection

    def check(self) -> None:
        if not self._connector.is_current(self._connection):
            raise ConnectionError("this process now uses another node")

    def note_commit(self, commit: Commit) -> None:
        self._connector.note_commit(commit.seq, epoch=commit.epoch, connection=self._connection)


class ServerLinkSource:
    """Opens links to the current primary."""

    def __init__(
        self, connector: Connector, create_link: Callable[[RawConnection, LinkNode], Link]
    ) -> None:
        self._connector = connector
        self._create_link = create_link

    async def connect(self) -> Link:
        connection = await self._connector.connect(Purpose.WRITE)
        return self._create_link(connection, ServerNode(self._connector, connection))

    def note_disconnect(self) -> None:
        self._connector.note_disconnect()


def create_link_source(database: Database, address: Address) -> LinkSource:
    """Return the link source for the driver of `database`."""
    if database.connector is not None:
        return _create_server_source(database.connector, database.driver)
    if database.memory_connection is not None:
        assert database.memory_lock is not None
        shared: sqlite3.Connection = database.memory_connection
        memory_lock = MemoryLock(database.memory_lock)
        return SqliteLinkSource(lambda: SqliteLink(shared, memory_lock))

    file = database.file
    assert file is not None

    def open_file() -> SqliteLink:
        file_lock = FileLock(Path(address.database + LOCK_SUFFIX))
        return SqliteLink(file.open(), file_lock, file=file)

    return SqliteLinkSource(open_file)


def _create_server_source(connector: Connector, driver: Driver) -> LinkSource:
    # Imported here, so that a program imports only the dialect that it uses.
    if driver == "postgres":
        from headway.adapters.sql.write.links.postgres_link import PostgresLink  # noqa: PLC0415

        return ServerLinkSource(connector, PostgresLink)
    from headway.adapters.sql.write.links.mysql_link import MysqlLink  # noqa: PLC0415

    return ServerLinkSource(connector, MysqlLink)
