"""Create the readers' SQLAlchemy engine, which uses connections that headway opens itself."""

import sqlite3
from collections.abc import Callable
from typing import Any, Final

import aiosqlite
from sqlalchemy import AsyncAdaptedQueuePool, Connection, Pool, StaticPool, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.dsn import Driver
from headway.adapters.sql.connect.server_check import Purpose
from headway.core.errors import DatabaseUnavailable

READ_ONLY_OPTION: Final = "headway_read_only"
"""The name of the execution option for a connection that only reads."""

ENGINE_URLS: Final[dict[Driver, str]] = {
    "sqlite": "sqlite+aiosqlite://",
    "postgres": "postgresql+asyncpg://",
    "mysql": "mysql+aiomysql://",
}


def create_server_engine(driver: Driver, connector: Connector) -> AsyncEngine:
    engine = create_async_engine(
        ENGINE_URLS[driver],
        async_creator=lambda: connector.connect(Purpose.READ),
        pool_size=5,
        max_overflow=10,
        pool_timeout=30,
        pool_recycle=300,
        pool_pre_ping=True,
    )

    def refuse_old_node(_: Any, entry: ConnectionPoolEntry, __: Any) -> None:
        # After a failover the pool may still contain connections to the old primary.
        if not connector.is_current(entry.driver_connection):
            raise DisconnectionError

    event.listen(engine.sync_engine, "checkout", refuse_old_node)
    event.listen(engine.sync_engine, "invalidate", lambda *_: connector.note_disconnect())
    event.listen(engine.sync_engine, "handle_error", _translate_timeout)
    return engine


def _translate_timeout(context: ExceptionContext) -> None:
    # asyncpg raises a TimeoutError without a message when `command_timeout` is exceeded.
    if isinstance(context.original_exception, TimeoutError):
        reason = {"database": "a statement took longer than command_timeout allows"}
        raise DatabaseUnavailable(reason) from context.original_exception


def create_sqlite_engine(open_file: Callable[[], sqlite3.Connection]) -> AsyncEngine:
    # Last in, first out: each connection has its own page cache, and rarely used caches stay small.
    return _create_engine(open_file, AsyncAdaptedQueuePool, pool_use_lifo=True)


def create_memory_engine(shared: sqlite3.Connection) -> AsyncEngine:
    """Return an engine that only uses `shared`: a second connection would be a new database."""
    return _create_engine(lambda: shared, StaticPool)


def _create_engine(
    open_connection: Callable[[], sqlite3.Connection], pool: type[Pool], **options: Any
) -> AsyncEngine:
    async def create() -> aiosqlite.Connection:
        connection = aiosqlite.Connection(open_connection, iter_chunk_size=64)
        # Otherwise a program that forgets to close the engine would never exit.
        connection._thread.daemon = True
        return await connection

    engine = create_async_engine(
        ENGINE_URLS["sqlite"], async_creator=create, poolclass=pool, **options
    )
    event.listen(engine.sync_engine, "begin", _begin_transaction)
    return engine


def _begin_transaction(connection: Connection) -> None:
    # A transaction that writes takes the write lock first. A transaction that reads and takes it
    # later can fail with "database is locked".
    is_read_only = connection.get_execution_options().get(READ_ONLY_OPTION, False)
    connection.exec_driver_sql("BEGIN" if is_read_only else "BEGIN IMMEDIATE")
