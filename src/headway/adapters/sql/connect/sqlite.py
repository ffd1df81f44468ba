"""The one way in which a SQLite connection is opened, by readers and by the writer alike."""

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
"""What a commit survives: the end of the process, or also a power cut."""

APPLICATION_ID: Final = 0x68647779
"""Written into the head of our files, so that we never touch another program's."""
BUSY_TIMEOUT_S: Final = 5.0
TABLE_COUNT_SHOWN: Final = 6
SAFE_TO_SHARE: Final = (3, 51, 3)
"""Before this version one who checkpoints while another writes can corrupt the log."""
SYNCHRONOUS: Final = {"process": "NORMAL", "power": "FULL"}
# What a fault of SQLite means to the one who named the file, and what to do.
ERROR_ADVICE: Final[Mapping[str, str]] = {
    "SQLITE_NOTADB": "is not a SQLite database; name another file",
    "SQLITE_CORRUPT": "is damaged; restore it from a copy, or name another file",
    "SQLITE_FULL": "cannot grow because its disk is full; free some space and try again",
    "SQLITE_BUSY": "is in use by another program; end that, or name another file",
    "SQLITE_CANTOPEN": "cannot be written; let headway write to it and to its folder",
    "SQLITE_READONLY": "cannot be written; let headway write to it and to its folder",
}

log = event_log(__name__)


def open_sqlite(database: str, *, durability: Durability) -> sqlite3.Connection:
    """Open a file (created for its owner alone) or a new `:memory:`; usable from any thread.

    Transactions are begun by hand: the driver's own mode lets a read and the write that builds on
    it fall into two transactions, and loses updates without a word.
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
    try:
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its -wal and -shm files the mode of the database. One that exists is never
        # opened here: to close it would drop every lock that this process holds on it, and others
        # would take the log for abandoned.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigurationError(
            f"the database file {str(path)!r} cannot be opened ({error.strerror}); "
            "name a file in a folder that headway may write"
        ) from error


def has_headway_tables(path: Path) -> bool:
    """Whether the file holds our tables; ConfigurationError if it holds another program's.

    Looks without a trace: whoever opens a file to write has changed it before the first question
    is answered (the mode of its log), and leaves files beside it.
    """
    if path.is_dir():
        raise ConfigurationError(f"{str(path)!r} is a folder, not a database file; name a file")
    # Check for leftovers first: a process that makes a new file writes to it before its log.
    leftover = _find_log(path)
    if not path.exists() or path.stat().st_size == 0:
        if leftover is not None:
            raise ConfigurationError(
                f"the database file {str(path)!r} is missing or empty, but {leftover.name!r} of it"
                " is there and may hold commits; put the file back, or remove the files that end"
                " with -wal and -shm as well to begin with an empty database"
            )
        return False
    # Without a log beside it the file is all there is, and SQLite needs to make none.
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
    """Return a file of the write-ahead log beside `path`, or None if there is none."""
    beside = (Path(f"{path}{suffix}") for suffix in ("-wal", "-shm"))
    return next((file for file in beside if file.exists()), None)


def warn_if_sqlite_is_old(path: Path) -> None:
    """To be called when several processes share a file: older libraries are safe only behind us."""
    if sqlite3.sqlite_version_info < SAFE_TO_SHARE:
        log.warning(
            "sqlite_file_shared_with_an_old_library",
            extra={
                "path": str(path),
                "version": sqlite3.sqlite_version,
                "advice": "let no other program write to the file, or use SQLite 3.51.3 or later",
            },
        )


def explain_error(error: Exception, database: str) -> str:
    """One sentence for the one who named the file: what is wrong with it, and what to do."""
    match error:
        case sqlite3.Error(sqlite_errorname=str() as name):
            kind = "_".join(name.split("_")[:2])  # SQLITE_IOERR_WRITE is SQLITE_IOERR, and so on.
        case _:
            kind = ""
    problem = ERROR_ADVICE.get(
        kind, f"cannot be used ({error}); see whether its disk is full or failing"
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
    # One checkpointer per file, the writer: a second one at the wrong instant can corrupt the log
    # in SQLite before 3.51.3.
    connection.execute("PRAGMA wal_autocheckpoint = 0")
