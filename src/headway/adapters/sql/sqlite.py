"""The one way in which a SQLite connection is opened, by readers and by the writer alike."""

import os
import sqlite3
from pathlib import Path
from typing import Final, Literal

from headway.adapters.sql.dsn import MEMORY
from headway.core.errors import ConfigurationError

Durability = Literal["process", "power"]
"""What a commit survives: the end of the process, or also a power cut."""

SYNCHRONOUS: Final = {"process": "NORMAL", "power": "FULL"}


def open_sqlite(database: str, *, durability: Durability) -> sqlite3.Connection:
    """Open a file (created for its owner alone) or a new `:memory:`; usable from any thread.

    Transactions are begun by hand: the driver's own mode lets a read and the write that builds on
    it fall into two transactions, and loses updates without a word.
    """
    if database != MEMORY:
        create_private(Path(database))
    connection = sqlite3.connect(database, check_same_thread=False, isolation_level=None)
    try:
        _set_pragmas(connection, database, durability)
    except BaseException:
        connection.close()
        raise
    return connection


def create_private(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its -wal and -shm files the mode of the database.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ConfigurationError(
            f"the database file {str(path)!r} cannot be opened ({error.strerror}); "
            "name a file in a folder that headway may write"
        ) from error


def _set_pragmas(connection: sqlite3.Connection, database: str, durability: Durability) -> None:
    # First, so that what follows already waits its turn.
    connection.execute("PRAGMA busy_timeout = 5000")
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
