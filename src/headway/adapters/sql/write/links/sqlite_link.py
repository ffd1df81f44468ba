"""The writer's link to SQLite, with the standard driver in the writer's thread.

Every write transaction holds two locks. The first is a `flock` on a file next to the database: the
writers of all processes wait for it in the kernel, instead of failing with "database is locked".
The second is SQLite's own write lock, from BEGIN on. Checkpoints, which copy the write-ahead log
into the file, run only here and under the same `flock`. Before version 3.51.3, SQLite could corrupt
the log if one connection made a checkpoint while another wrote.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Dialect

from headway.adapters.sql.connect.database_file import DatabaseFile
from headway.adapters.sql.statements import (
    Delete,
    GuardFailed,
    Insert,
    PlannedWrite,
    Query,
    Row,
    Update,
    Write,
    compile_query,
    compile_write,
)
from headway.adapters.sql.write.links.driver_link import Commit
from headway.core.errors import DatabaseFileLost
from headway.log import event_log

CHECKPOINT_ROW_COUNT: Final = 10_000
LOG_BYTE_COUNT_MAX: Final = 16 << 20
LOG_BYTE_COUNT_RETAINED: Final = 8 << 20
STATEMENT_ROW_COUNTS: Final = (128, 32, 8, 2)
"""The possible numbers of rows per statement. Each number needs its own cached statement."""

log = event_log(__name__)


class SqliteLink:
    dialect: Dialect = SQLiteDialect_pysqlite(paramstyle="named")
    now_sql: str | None = None

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: "FileLock | MemoryLock",
        *,
        file: DatabaseFile | None = None,
    ) -> None:
        """Create a link. If `file` is given, the link owns `connection` and later closes it.

        The connection of a `:memory:` database belongs to its `Database`.
        """
        self._connection = connection
        self._file = file
        self._lock = lock
        self._row_count = 0
        self._is_closed = False
        connection.execute(f"PRAGMA journal_size_limit={LOG_BYTE_COUNT_RETAINED}")
        if file is not None:
            file.remember_log()

    async def begin(self) -> None:
        if self._is_closed:
            raise ConnectionError("the database connection is closed")
        self._lock.acquire()
        try:
            # Check under the lock: a process that creates a new file also writes under the lock.
            if self._file is not None:
                self._file.check()
            self._connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, DatabaseFileLost):
            self._lock.release()
            raise

    async def commit(self, _batch: Commit | None = None, /) -> None:
        self._connection.execute("COMMIT")
        log_byte_count = 0
        if self._file is not None:
            # A commit to a lost file does not count. The caller releases the lock in that case.
            log_byte_count = self._file.check_committed()
        try:
            # Bytes are checked too, because a few rows can be long. After a checkpoint the log is
            # truncated and starts over.
            if self._row_count >= CHECKPOINT_ROW_COUNT or log_byte_count > LOG_BYTE_COUNT_MAX:
                self._row_count = 0
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.Error, OSError) as error:
            # The commit is valid. Only the log stays long for now, for example on a full disk.
            log.warning("checkpoint_failed", extra={"reason": str(error)})
        self._lock.release()

    async def rollback(self) -> None:
        try:
            # SQLite ends the transaction by itself on some errors (disk full, I/O).
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        finally:
            self._lock.release()

    async def fetch(self, query: Query, parameters: Mapping[str, Any]) -> Sequence[Row]:
        compiled = compile_query(query, self.dialect)
        values = compiled.constants | {
            name: json.dumps(value) if isinstance(value, list) else value
            for name, value in parameters.items()
        }
        return self._connection.execute(compiled.sql, values).fetchall()

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        return [row for parameters in many for row in await self.fetch(query, parameters)]

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Write many rows per statement, because each statement releases the GIL.

        While the event loop is busy, the writer may wait for up to 5 ms to get the GIL back.
        """
        self._row_count += len(rows)
        matched_count = first = 0
        if not isinstance(statement, Delete):
            for row_count in STATEMENT_ROW_COUNTS:
                while first + row_count <= len(rows):
                    values = tuple(chain.from_iterable(rows[first : first + row_count]))
                    sql = _compile_multi_row(statement, row_count)
                    matched_count += self._connection.execute(sql, values).rowcount
                    first += row_count
        if first < len(rows):
            sql = compile_write(statement, self.dialect)
            matched_count += self._connection.executemany(sql, rows[first:]).rowcount
        return matched_count

    async def write_all(self, plan: Sequence[PlannedWrite]) -> None:
        for planned in plan:
            count = await self.write(planned.statement, planned.rows)
            if planned.is_guarded and count != len(planned.rows):
                raise GuardFailed(planned.statement)

    async def close(self) -> None:
        """Close the connection and the lock. It is safe to call this again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._lock.release()  # After an error the link may still hold it.
        # SQLite checkpoints when the last connection closes, so closing needs the lock too.
        self._lock.acquire()
        try:
            if self._file is not None:
                self._connection.close()
        finally:
            self._lock.release()
            self._lock.close()


@lru_cache(maxsize=512)
def _compile_multi_row(write: Insert | Update, row_count: int) -> str:
    quote = SqliteLink.dialect.identifier_preparer.quote
    table = quote(write.table.name)
    names = write.columns if isinstance(write, Insert) else (*write.sets, *write.guards)
    values = ", ".join([f"({', '.join('?' * len(names))})"] * row_count)
    if isinstance(write, Insert):
        return f"INSERT INTO {table} ({', '.join(map(quote, names))}) VALUES {values}"
    pairs = [(quote(name), f"v.column{number}") for number, name in enumerate(names, start=1)]
    changes = ", ".join(f"{name} = {value}" for name, value in pairs[: len(write.sets)])
    where = " AND ".join(f"{table}.{name} = {value}" for name, value in pairs[len(write.sets) :])
    return f"UPDATE {table} SET {changes} FROM (VALUES {values}) AS v WHERE {where}"


class FileLock:
    """A file lock that at most one writer, in any process, holds at a time.

    The kernel releases the lock when its process ends. A forked child closes its copy of the file
    at once. Otherwise the child would share the lock with its parent, and hold it permanently if
    the parent was killed during a commit.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._is_held = False
        _open_locks().add(self)

    def acquire(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        _open_locks().discard(self)
        os.close(self._fd)


@cache
def _open_locks() -> "WeakSet[FileLock]":
    locks: WeakSet[FileLock] = WeakSet()

    def close_all() -> None:
        for lock in list(locks):
            lock.close()

    os.register_at_fork(after_in_child=close_all)
    return locks


class MemoryLock:
    """The lock of a `:memory:` database, whose only connection the readers and the writer share."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._is_held = False

    def acquire(self) -> None:
        self._lock.acquire()
        self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._lock.release()

    def close(self) -> None:
        """Do nothing: the lock belongs to the database."""
