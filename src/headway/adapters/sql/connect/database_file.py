"""Detect that the SQLite file of a process was deleted or replaced.

A file that is deleted or replaced stays open: SQLite continues to write to it without an error, and
all of these writes are lost when the last connection closes. The process gets no notice, so it
compares the identity of the file at the path (device and inode) with that of the file that it
opened: before each transaction, and again after COMMIT, before it reports success to any caller. It
does the same for the write-ahead log, which holds the newest commits.

Each comparison is independent. If the same file is moved back, work continues. A different file
needs a restart, because connections to the old file may be open.

SQLite takes the same precaution when it closes. It deletes the log by name, and only if the file is
still at its path. The log of a replacement file is therefore left alone.

See docs/internals/connections.md.
"""

import os
import sqlite3
from typing import Final, NoReturn

from headway.adapters.sql.connect.sqlite import Durability, open_sqlite
from headway.core.errors import DatabaseFileLost
from headway.log import event_log

LOG_SUFFIX: Final = "-wal"
ADVICE: Final = (
    "move the same files back, or stop headway, put the database in place (without the -wal and"
    " -shm files of another database), and start headway again"
)

log = event_log(__name__)

Identity = tuple[int, int]


class DatabaseFile:
    """A SQLite file at a path. It can be used from several threads."""

    def __init__(self, path: str, *, durability: Durability) -> None:
        self.path = path
        self._durability: Durability = durability
        self._identity: Identity | None = None
        self._log_identity: Identity | None = None
        self._is_log_lost = False
        self._is_reported = False

    def open(self) -> sqlite3.Connection:
        """Open a connection to the file that the first connection opened.

        Raise DatabaseFileLost if that file was deleted or replaced.
        """
        self.check()
        connection = open_sqlite(self.path, durability=self._durability)
        if self._identity is None:
            self._identity = _identify(self.path)
        try:
            self.check()
        except DatabaseFileLost:
            connection.close()
            raise
        return connection

    def remember_log(self) -> None:
        """Record which write-ahead log the connections use. Call after opening a connection."""
        self._log_identity = _identify(self.path + LOG_SUFFIX)
        self._is_log_lost = False

    def check(self) -> None:
        """Raise DatabaseFileLost if the file at the path was deleted or replaced."""
        if self._identity is None:
            return
        identity = _identify(self.path)
        if identity != self._identity:
            self._refuse("deleted" if identity is None else "replaced by another")
        if self._is_log_lost:
            self.check_log()
        self._is_reported = False

    def check_log(self) -> int:
        """Return the length of the write-ahead log in bytes.

        Raise DatabaseFileLost if the log was deleted or replaced.
        """
        try:
            status = os.stat(self.path + LOG_SUFFIX)  # Twice as fast as `Path.stat`.
        except FileNotFoundError:
            status = None
        identity = None if status is None else (status.st_dev, status.st_ino)
        self._is_log_lost = identity != self._log_identity
        if status is None or self._is_log_lost:
            self._refuse("separated from its write-ahead log")
        return status.st_size

    def check_committed(self) -> int:
        """Check the file and its log after COMMIT. Return the length of the log."""
        self.check()
        return self.check_log()

    def _refuse(self, what_happened: str) -> NoReturn:
        error = DatabaseFileLost(what_happened)
        if not self._is_reported:
            self._is_reported = True
            log.error(
                "database_file_lost",
                extra={"path": self.path, "reason": str(error), "advice": ADVICE},
            )
        raise error


def _identify(path: str) -> Identity | None:
    """Return the device and the inode of the file at `path`, or None if there is no file."""
    try:
        status = os.stat(path)  # Twice as fast as `Path.stat`.
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino
