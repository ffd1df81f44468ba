"""Open SQLite connections with the same settings for the readers and the writer."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

from headway.adapters.sql.connect.dsn import MEMORY
from headway.core.errors import ConfigurationError
from headway.log import event_log

Durability = Literal["process", "power"]
"""The failures that a commit survives: only the end of the process, or also a power cut."""

APPLICATION_ID: Final = 0x68647779
"""Stored in the header of headway's files, so that another program's file is never changed."""
BUSY_TIMEOUT_S: Final = 5.0
TABLE_COUNT_SHOWN: Final = 6
SAFE_TO_SHARE: Final = (3, 51, 3)
"""The first SQLite version that is safe if other programs write to the same file.

In older versions a checkpoint during another connection's write can corrupt the log.
"""
SYNCHRONOUS: Final = {"process": "NORMAL", "power": "FULL"}
# For each SQLite error: the problem with the configured file, and the remedy.
ERROR_ADVICE: Final[Mapping[str, str]] = {
    "SQLITE_NOTADB": "is not a SQLite database; name another file",
    "SQLITE_CORRUPT": "is damaged; restore it from a copy, or name another file",
    "SQLITE_FULL": "cannot grow because its disk is full; free some space and try again",
    "SQLITE_BUSY": "is in use by another program; stop that program, or name another file",
    "SQLITE_CANTOPEN": "cannot be written; let headway write to it and to its folder",
    "SQLITE_READONLY": "cannot be written; let headway write to it and to its folder",
}

log = event_log(__name__)


def open_sqlite(database: str, *, durability: Durability) -> sqlite3.Connection:
    """Open a file or a new `:memory:` database. The connection can be used from any thread.

    A new file gets mode 0600. Transactions are begun explicitly: in the driver's default mode a
    read and the write that depends on it may run in two transactions, which silently loses updates.
    """
    if database != MEMORY:
        create_private_file(Path(database))
    connection = sqlite3.connect(
        database, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None
    )
    try:
        _set_pragmas(connection, database, durability)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise ConfigurationError(explain_error(error, database)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def create_private_file(path: Path) -> None:
    """Create the file with mode 0600, and its folder if needed. Do nothing if the file exists."""
    try:
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its -wal and -shm files the mode of the database. An existing file is never
        # opened here: closing it would drop every lock that this process has on it, and other
        # processes would treat the log as abandoned.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigurationError(
            f"the database file {str(path)!r} cannot be opened ({error.strerror}); "
            "name a file in a folder that headway may write"
        ) from error


def has_headway_tables(path: Path) -> bool:
    """Return True if the file contains headway's tables.

    Raise ConfigurationError if the file contains another program's tables. The file is opened
    read-only: opening it for writing would change its journal mode before the first query, and
    create -wal and -shm files.
    """
    if path.is_dir():
        raise ConfigurationError(f"{str(path)!r} is a folder, not a database file; name a file")
    # Check for leftovers first: a process that creates a file writes to it before it has a log.
    leftover = _find_log(path)
    if not path.exists() or path.stat().st_size == 0:
        if leftover is not None:
            raise ConfigurationError(
                f"the database file {str(path)!r} is missing or empty, but its log"
                f" {leftover.name!r} exists and may contain commits; put the file back, or also"
                " remove the files that end with -wal and -shm to start with an empty database"
            )
        return False
    # Without a log, all data is in the file itself, and `immutable` prevents SQLite from creating
    # a log.
    has_log = Path(f"{path}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    try:
        with closing(sqlite3.connect(address, timeout=BUSY_TIMEOUT_S, uri=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
            tables = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
            ).fetchall()
    except sqlite3.DatabaseError as error:
        raise ConfigurationError(explain_error(error, str(path))) from error
    if tables and owner != APPLICATION_ID:
        names = ", ".join(name for (name,) in tables[:TABLE_COUNT_SHOWN])
        more = ", …" if len(tables) > TABLE_COUNT_SHOWN else ""
        raise ConfigurationError(
            f"the database file {str(path)!r} belongs to another program"
            f" (its tables: {names}{more}); name another file"
        )
    return bool(tables)


def _find_log(path: Path) -> Path | None:
    """Return the -wal or -shm file beside `path`, or None if neither exists."""
    beside = (Path(f"{path}{suffix}") for suffix in ("-wal", "-shm"))
    return next((file for file in beside if file.exists()), None)


def warn_if_sqlite_is_old(path: Path) -> None:
    """Log a warning if SQLite is older than SAFE_TO_SHARE.

    Call this if several processes share the file. With older versions only headway may write to the
    file, because headway's lock prevents concurrent checkpoints.
    """
    if sqlite3.sqlite_version_info < SAFE_TO_SHARE:
        log.warning(
            "old_sqlite_version_detected",
            extra={
                "path": str(path),
                "version": sqlite3.sqlite_version,
                "advice": "let no other program write to the file, or use SQLite 3.51.3 or later",
            },
        )


def explain_error(error: Exception, database: str) -> str:
    """Return one sentence for the user: what is wrong with the file, and what to do."""
    match error:
        case sqlite3.Error(sqlite_errorname=str() as name):
            kind = "_".join(name.split("_")[:2])  # SQLITE_IOERR_WRITE becomes SQLITE_IOERR.
        case _:
            kind = ""
    problem = ERROR_ADVICE.get(
        kind, f"cannot be used ({error}); check whether its disk is full or failing"
    )
    return f"the database file {database!r} {problem}"


def _set_pragmas(connection: sqlite3.Connection, database: str, durability: Durability) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if database != MEMORY and mode != "wal":
        raise ConfigurationError(
            f"the database file {database!r} cannot use a write-ahead log; "
            "put it on a local disk, not on a network file system"
        )
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
    connection.execute("PRAGMA cache_size = -64000")
    connection.execute("PRAGMA foreign_keys = ON")
    # Only the writer checkpoints: before SQLite 3.51.3, a checkpoint by another connection during
    # a write can corrupt the log.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
