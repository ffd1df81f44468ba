"""Nodes to connect to. A client identifies a node by URL, so each database counts as a node."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import asyncpg

from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from tests.servers import MariaDBServer, PostgresServer


class Node(Protocol):
    database: str
    url: str

    def create(self) -> None: ...

    def execute(self, *statements: str) -> str:
        """Return the first value of the last statement, as text."""
        ...

    def leave(self) -> None:
        """Refuse new connections, as if the machine were gone."""
        ...

    def come_back(self) -> None: ...

    def cut(self) -> None:
        """Break every existing connection."""
        ...

    def drop(self) -> None: ...


class PostgresNode:
    def __init__(self, server: PostgresServer, database: str) -> None:
        self.server = server
        self.database = database
        self.url = server.url(database)

    def create(self) -> None:
        self.server.create_database(self.database)

    def execute(self, *statements: str) -> str:
        return self.server.execute(*statements, database=self.database)

    def leave(self) -> None:
        self.server.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false")

    def come_back(self) -> None:
        self.server.execute(f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS true")

    def cut(self) -> None:
        query = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname"
        self.server.execute(f"{query} = '{self.database}'")

    def drop(self) -> None:
        self.server.drop_database(self.database)


class MariaDBNode:
    """A node with a user of its own, who can be locked out."""

    def __init__(self, server: MariaDBServer, database: str) -> None:
        self.server = server
        self.database = database
        self.url = f"mysql://{database}:{database}@{server.host}:{server.port}/{database}"

    def create(self) -> None:
        self.server.create_database(self.database)
        self.server.execute(
            f"CREATE USER {self.database} IDENTIFIED BY '{self.database}'",
            f"GRANT ALL ON {self.database}.* TO {self.database}",
        )

    def execute(self, *statements: str) -> str:
        return self.server.execute(f"USE {self.database}", *statements)

    def leave(self) -> None:
        self.server.execute(f"ALTER USER {self.database} ACCOUNT LOCK")

    def come_back(self) -> None:
        self.server.execute(f"ALTER USER {self.database} ACCOUNT UNLOCK")

    def cut(self) -> None:
        self.server.execute(f"KILL USER {self.database}")

    def drop(self) -> None:
        self.server.execute(f"DROP USER {self.database}")
        self.server.drop_database(self.database)


def make_stream(node: Node, *, cluster_id: str = "ours", epoch: int = 0, seq: int = 0) -> None:
    """Replace the state of the node's stream row."""
    node.execute(
        "CREATE TABLE IF NOT EXISTS stream"
        " (id BIGINT PRIMARY KEY, cluster_id VARCHAR(36), epoch BIGINT, seq BIGINT)",
        "DELETE FROM stream",
        f"INSERT INTO stream VALUES (1, '{cluster_id}', {epoch}, {seq})",  # noqa: S608
    )


def read_epoch(node: Node) -> int:
    return int(node.execute("SELECT epoch FROM stream"))


def make_connector(*nodes: Node | str, clock_s: Callable[[], float] = lambda: 0.0) -> Connector:
    urls = [node if isinstance(node, str) else node.url for node in nodes]
    return Connector(parse_addresses(urls), clock_s=clock_s)


@asynccontextmanager
async def open_connection(
    connector: Connector, purpose: Purpose = Purpose.READ
) -> AsyncIterator[RawConnection]:
    connection = await connector.connect(purpose)
    try:
        yield connection
    finally:
        if isinstance(connection, asyncpg.Connection):
            await connection.close(timeout=5)
        else:
            await connection.ensure_closed()


def is_closed(connection: RawConnection) -> bool:
    if isinstance(connection, asyncpg.Connection):
        return bool(connection.is_closed())
    return bool(connection.closed)


async def run(connection: RawConnection, statement: str) -> None:
    """Run a statement, and commit its transaction."""
    if isinstance(connection, asyncpg.Connection):
        await connection.execute(statement)
        if connection.is_in_transaction():
            await connection.execute("COMMIT")
        return
    async with connection.cursor() as cursor:
        await cursor.execute(statement)
    await connection.commit()


async def start(connection: RawConnection, statement: str) -> None:
    """Run a statement, and leave its transaction open."""
    if isinstance(connection, asyncpg.Connection):
        await connection.execute(f"BEGIN; {statement}")
        return
    await connection.begin()
    async with connection.cursor() as cursor:
        await cursor.execute(statement)


async def read_value(connection: RawConnection, query: str) -> object:
    """Return the first value of the first row."""
    if isinstance(connection, asyncpg.Connection):
        return await connection.fetchval(query)
    async with connection.cursor() as cursor:
        await cursor.execute(query)
        ((value, *_),) = await cursor.fetchall()
        return value


async def read_database_name(connector: Connector) -> object:
    """Return the database that a new connection leads to."""
    async with open_connection(connector) as connection:
        if isinstance(connection, asyncpg.Connection):
            return await read_value(connection, "SELECT current_database()")
        return await read_value(connection, "SELECT database()")
