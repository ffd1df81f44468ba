"""The database for its readers: one engine, sessions, snapshots and retries."""

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import Row, Select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.database_clock import DatabaseClock
from headway.adapters.sql.connect.database_file import DatabaseFile
from headway.adapters.sql.connect.driver_errors import (
    first_line,
    is_disconnect,
    is_duplicate,
    is_outage,
)
from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.sqlalchemy_engine import (
    READ_ONLY_OPTION,
    create_memory_engine,
    create_server_engine,
    create_sqlite_engine,
)
from headway.adapters.sql.connect.sqlite import Durability, open_sqlite
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import Instant

if TYPE_CHECKING:
    import sqlite3

RETRY_DELAYS_S: Final = (1.0, 2.0, 4.0)
CLOSE_WAIT_S: Final = 5.0
REPEATABLE_READ: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
CONSISTENT_SNAPSHOT: Final = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Database:
    """One database, with any driver. The first connection is made at the first use.

    Sessions belong to one event loop. The connector can be used from any event loop.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        durability: Durability,
        now: Callable[[], Instant] | None = None,
    ) -> None:
        """Create the database. `now` replaces its clock, for tests."""
        address = addresses[0]
        self.driver = address.driver
        self.clock = DatabaseClock(address.driver, now)
        # Opens the connections to a server. None on SQLite.
        self.connector: Connector | None = None
        # The only connection of a `:memory:` database, which the writer also uses. Every
        # transaction on it holds the lock, so that no other transaction sees uncommitted rows.
        self.memory_connection: sqlite3.Connection | None = None
        self.memory_lock: threading.Lock | None = None
        # The file of a SQLite database that is not in memory.
        self.file: DatabaseFile | None = None
        self.engine: AsyncEngine
        self._in_flight: set[asyncio.Task[Any]] = set()
        if address.driver != "sqlite":
            self.connector = Connector(addresses)
            self.engine = create_server_engine(address.driver, self.connector)
        elif address.is_memory:
            self.memory_connection = open_sqlite(address.database, durability=durability)
            self.memory_lock = threading.Lock()
            self.engine = create_memory_engine(self.memory_connection)
        else:
            self.file = DatabaseFile(address.database, durability=durability)
            self.engine = create_sqlite_engine(self.file.open)

    @asynccontextmanager
    async def open_session(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection for reading. The caller begins and ends transactions.

        A `:memory:` database allows one session at a time: opening a second one inside the first
        waits forever.
        """
        with _translate_outages():
            async with self._open({READ_ONLY_OPTION: True}) as connection:
                yield connection

    @asynccontextmanager
    async def open_write_session(self) -> AsyncIterator[AsyncConnection]:
        """Open a session that may write, for migrations only. All other changes use the writer."""
        async with self._open({}) as connection:
            yield connection

    @asynccontextmanager
    async def open_snapshot(self) -> AsyncIterator[AsyncConnection]:
        """Open a session in which every query sees the same state."""
        with _translate_outages():
            async with self._open_in_snapshot() as connection:
                yield connection

    async def read_with_retry(
        self,
        read: Callable[[AsyncConnection], Awaitable[T]],
        *,
        in_snapshot: bool = False,
        sleep: Sleep = asyncio.sleep,
    ) -> T:
        """Read, and repeat the read in a new session if the connection is lost.

        Do not use this for a compare-and-set or for several steps. The first attempt may have been
        committed although its answer was lost.
        """
        if in_snapshot:
            return await self._retry(self._open_in_snapshot, read, sleep)
        return await self._retry(lambda: self._open({READ_ONLY_OPTION: True}), read, sleep)

    async def fetch_rows(
        self, query: Select[Any], parameters: Mapping[str, Any] | None = None
    ) -> Sequence[Row[Any]]:
        """Return the rows of one query, using `read_with_retry`."""

        async def read(connection: AsyncConnection) -> Sequence[Row[Any]]:
            rows: Sequence[Row[Any]] = (await connection.execute(query, parameters)).all()
            return rows

        return await self.read_with_retry(read)

    async def write_with_retry(
        self, write: Callable[[AsyncConnection], Awaitable[T]], *, sleep: Sleep = asyncio.sleep
    ) -> T | None:
        """Write, and repeat the write in a new session if the connection is lost.

        The write must be safe to repeat. Return None if a repeated attempt finds a duplicate,
        because an earlier attempt has then written the row. If the first attempt finds a duplicate,
        another writer has written that row, and the error is raised.
        """
        has_tried = False

        async def write_or_find(connection: AsyncConnection) -> T | None:
            nonlocal has_tried
            is_repeat, has_tried = has_tried, True
            try:
                return await write(connection)
            except IntegrityError as error:
                if is_repeat and is_duplicate(error):
                    return None
                raise

        return await self._retry(lambda: self._open({}), write_or_find, sleep)

    @property
    def is_reading(self) -> bool:
        return bool(self._in_flight)

    async def close(self) -> None:
        if self._in_flight:
            _, unfinished = await asyncio.wait(self._in_flight, timeout=CLOSE_WAIT_S)
            for task in unfinished:
                task.cancel()
        await self.engine.dispose()
        if self.memory_connection is not None:
            self.memory_connection.close()

    async def _retry(
        self,
        open_session: Callable[[], AbstractAsyncContextManager[AsyncConnection]],
        work: Callable[[AsyncConnection], Awaitable[T]],
        sleep: Sleep,
    ) -> T:
        has_connected = False

        async def attempt() -> T:
            nonlocal has_connected
            async with open_session() as connection:
                has_connected = True
                return await work(connection)

        with _translate_outages():
            for delay_s in RETRY_DELAYS_S:
                has_connected = False
                try:
                    return await self._run_shielded(attempt())
                except (OSError, DatabaseUnavailable):
                    if has_connected:  # Raised by `work` itself, not by connecting.
                        raise
                except Exception as error:  # SQLAlchemy does not wrap every driver error.
                    if not is_disconnect(error):
                        raise
                await sleep(delay_s)
            return await self._run_shielded(attempt())

    async def _run_shielded(self, attempt: Coroutine[Any, Any, T]) -> T:
        """Run the attempt to its end, even if the caller is canceled.

        An attempt that is canceled in the middle might leave a connection open.
        """
        task = asyncio.create_task(attempt)
        self._in_flight.add(task)
        task.add_done_callback(self._on_done)
        return await asyncio.shield(task)

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._in_flight.discard(task)
        if not task.cancelled():
            # The caller may have been canceled. asyncio logs exceptions that are never retrieved.
            task.exception()

    @asynccontextmanager
    async def _open_in_snapshot(self) -> AsyncIterator[AsyncConnection]:
        options: dict[str, Any] = {READ_ONLY_OPTION: True}
        if self.driver == "postgres":
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        async with self._open(options) as connection:
            if self.driver == "mysql":
                # In SQL, because SQLAlchemy's option would also turn off the user's autocommit.
                await connection.execute(text(REPEATABLE_READ))
                await connection.execute(text(CONSISTENT_SNAPSHOT))
            yield connection

    @asynccontextmanager
    async def _open(self, options: Mapping[str, Any]) -> AsyncIterator[AsyncConnection]:
        lock = nullcontext() if self.memory_lock is None else _hold_lock(self.memory_lock)
        # The connection is closed while the lock is held: closing rolls back, and would otherwise
        # undo a transaction of the writer.
        async with lock, self.engine.connect() as connection:
            if self.file is not None:
                self.file.check()
            await connection.execution_options(**options)
            yield connection


@contextmanager
def _translate_outages() -> Iterator[None]:
    """Translate errors that mean an outage to DatabaseUnavailable.

    The message of SQLAlchemy's own error would contain the statement and its values.
    """
    try:
        yield
    except PoolTimeout as error:
        raise DatabaseUnavailable({"database": "all connections are in use"}) from error
    except (OSError, DatabaseUnavailable):
        raise
    except Exception as error:
        if not is_outage(error):
            raise
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        raise DatabaseUnavailable({"database": first_line(cause)}) from error


@asynccontextmanager
async def _hold_lock(lock: threading.Lock) -> AsyncIterator[None]:
    """Hold a thread lock, and do not block the event loop while waiting for it."""
    acquiring = asyncio.get_running_loop().run_in_executor(None, lock.acquire)
    try:
        await asyncio.shield(acquiring)
    except asyncio.CancelledError:
        # The waiting thread cannot be interrupted. Release the lock once that thread has it.
        acquiring.add_done_callback(lambda _: lock.release())
        raise
    try:
        yield
    finally:
        lock.release()
