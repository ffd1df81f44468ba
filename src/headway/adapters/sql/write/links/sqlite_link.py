"""SQLite: the standard driver, in the writer's own thread.

Every write transaction holds two locks: a `flock` on a file beside the database, which makes the
writers of all processes wait in line instead of failing, and SQLite's own write lock from BEGIN on.
The write-ahead log is copied back into the file only here, behind the same gate: before version
3.51.3 SQLite could corrupt the log when one connection did so while another wrote.
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
    Insert,
    PlannedWrite,
    Query,
    Row,
    Update,
    Write,
    compile_query,
    compile_write,
)
from headway.core.errors import DatabaseFileLost
from headway.log import event_log

CHECKPOINT_ROW_COUNT: Final = 10_000
LOG_BYTE_COUNT_MAX: Final = 16 << 20
LOG_BYTE_COUNT_RETAINED: Final = 8 << 20
STATEMENT_ROW_COUNTS: Final = (128, 32, 8, 2)
"""So many rows go in one statement, or one by one. Few sizes: each is a statement to keep."""

log = event_log(__name__)


class SqliteLink:
    dialect: Dialect = SQLiteDialect_pysqlite()
    now_sql: str | None = None

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: "FileLock | MemoryLock",
        *,
        file: DatabaseFile | None = None,
    ) -> None:
        """Own `connection` if it has a `file`. The database owns the one in memory."""
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
            raise ConnectionError("the link is closed")
        self._lock.acquire()
        try:
            # Under the gate, because another headway that has made a new file also writes under it.
            if self._file is not None:
                self._file.check()
            self._connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, DatabaseFileLost):
            self._lock.release()
            raise

    async def commit(self, _notice: str | None = None, /) -> None:
        self._connection.execute("COMMIT")
        log_byte_count = 0
        if self._file is not None:
            # A commit to a lost file does not count. The caller releases the gate in that case.
            self._file.check()
            log_byte_count = self._file.check_log()
        try:
            # A few rows may be many bytes. Once copied back, the log starts over and is truncated.
            if self._row_count >= CHECKPOINT_ROW_COUNT or log_byte_count > LOG_BYTE_COUNT_MAX:
                self._row_count = 0
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.Error, OSError) as error:
            # The commit stands; only the log stays longer for now (a full disk, say).
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
        return self._connection.execute(
            compiled.sql, [_to_bindable(value) for value in compiled.arguments(parameters)]
        ).fetchall()

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        return [row for each in many for row in await self.fetch(query, each)]

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Many rows in one step: between two, the driver lets other threads go first.

        A busy event loop then keeps the writer waiting for 5 ms each time.
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
        for one in plan:
            one.check_count(await self.write(one.statement, one.rows))

    async def close(self) -> None:
        """Safe to call again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._lock.release()  # After a fault it may still be ours.
        # The last connection to close copies the log back, so it too waits for the gate.
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
    places = [(quote(name), f"v.column{number}") for number, name in enumerate(names, start=1)]
    changes = ", ".join(f"{name} = {place}" for name, place in places[: len(write.sets)])
    where = " AND ".join(f"{table}.{name} = {place}" for name, place in places[len(write.sets) :])
    return f"UPDATE {table} SET {changes} FROM (VALUES {values}) AS v WHERE {where}"


def _to_bindable(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


class FileLock:
    """One writer at a time over all processes; the kernel opens it when its holder dies.

    A child that was forked lets go of it at once. It would hold it with its parent, and for ever
    if that was killed in the midst of a commit.
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
    gates: WeakSet[FileLock] = WeakSet()

    def close_all() -> None:
        for gate in list(gates):
            gate.close()

    os.register_at_fork(after_in_child=close_all)
    return gates


class MemoryLock:
    """In memory there is one connection for all: whoever uses it keeps the others out."""

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
        """The lock belongs to the database."""
