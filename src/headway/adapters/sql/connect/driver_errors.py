"""Classify the errors of the drivers: duplicate, conflict, disconnect, outage.

Each function accepts the driver's own error or the SQLAlchemy error that wraps it. No driver is
imported, so it does not matter which drivers are installed.
"""

import sqlite3
from typing import Final, Protocol, runtime_checkable

from sqlalchemy.exc import DBAPIError

from headway.adapters.sql.statements import GuardFailed
from headway.core.errors import DatabaseUnavailable, InfrastructureError, StoreFailed
from headway.log import event_log

log = event_log(__name__)

DUPLICATE_CODES: Final = frozenset(
    {"23505", 1062, "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"}
)
CONFLICT_CODES: Final = frozenset({"40001", "40P01", "55P03", 1205, 1213, "SQLITE_BUSY"})
READ_ONLY_CODES: Final = frozenset({"25006", 1290, 1792, 1836, "SQLITE_READONLY"})
# 25P03: idle in a transaction for too long. 57P0x: the server is stopping, crashed or is starting.
DISCONNECT_CODES: Final = frozenset(
    {"25P03", "57P01", "57P02", "57P03", "57P05"} | {1053, 1927, 2003, 2006, 2013, 2055, 4031}
)
DISCONNECT_CLASS: Final = "08"
# A time limit of the server was exceeded, or a disk or file cannot be read.
OUTAGE_CODES: Final = frozenset(
    {"57014", 1969, 3024} | {"SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_NOMEM"}
)
OUTAGE_CLASS: Final = "53"
DRIVER_MODULES: Final = frozenset({"asyncpg", "aiomysql", "pymysql", "sqlalchemy"})
# asyncpg and aiomysql raise errors with these messages, without a code or a specific class.
DISCONNECT_MESSAGES: Final = (
    "connection is closed",
    "connection was closed",
    "not connected",
    "already closed",
    # The server has closed the session, and the driver has not noticed it yet.
    "cannot switch to state",
)


@runtime_checkable
class _HasSqlstate(Protocol):
    sqlstate: str | None


def is_duplicate(error: BaseException) -> bool:
    """Return True if a row with the same key exists already."""
    return _error_code(error) in DUPLICATE_CODES


def is_serialization_conflict(error: BaseException) -> bool:
    """Return True if a lock conflict undid the transaction, so that a repetition may succeed."""
    return _error_code(error) in CONFLICT_CODES


def is_read_only(error: BaseException) -> bool:
    """Return True if the node refuses writes, which means it is no longer the primary."""
    return _error_code(error) in READ_ONLY_CODES


def is_disconnect(error: BaseException) -> bool:
    """Return True if the connection is lost. The outcome of a commit in flight is then unknown."""
    if isinstance(error, DatabaseUnavailable | ConnectionError):
        return True
    if isinstance(error, OSError):
        # A TimeoutError is an OSError without a number, and its connection still works.
        return error.errno is not None
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    code = _error_code(error)
    if code is None:
        is_drivers = type(error).__module__.partition(".")[0] in DRIVER_MODULES
        return is_drivers and any(text in str(error).lower() for text in DISCONNECT_MESSAGES)
    return code in DISCONNECT_CODES or (isinstance(code, str) and code.startswith(DISCONNECT_CLASS))


def is_outage(error: BaseException) -> bool:
    """Return True if a read failed because the database is unavailable at the moment."""
    code = _error_code(error)
    lacks_resource = code in OUTAGE_CODES or (
        isinstance(code, str) and code.startswith(OUTAGE_CLASS)
    )
    return lacks_resource or is_disconnect(error) or is_serialization_conflict(error)


def is_conflict(error: BaseException) -> bool:
    """Return True if another writer changed the rows, so the batch must be decided again."""
    return isinstance(error, GuardFailed) or is_duplicate(error) or is_serialization_conflict(error)


def is_transient(error: BaseException) -> bool:
    """Return True if a repetition of the same batch may succeed."""
    is_lost = is_disconnect(error) or is_read_only(error) or isinstance(error, TimeoutError)
    return is_lost or is_conflict(error)


def first_line(error: BaseException) -> str:
    """Return the driver's message without the row values that some drivers append."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _error_code(error: BaseException) -> str | int | None:
    match error:
        case DBAPIError(orig=BaseException() as orig):
            return _error_code(orig)
        case sqlite3.Error(sqlite_errorname=str() as name):
            # SQLITE_BUSY_SNAPSHOT becomes SQLITE_BUSY. Only the last part names the constraint.
            is_constraint = name.startswith("SQLITE_CONSTRAINT")
            return name if is_constraint else "_".join(name.split("_")[:2])
        case OSError():  # Its number is an error of the operating system.
            return None
        case BaseException(args=(int() as number, *_)):  # pymysql. Its SQLSTATEs are too coarse.
            return number
        case _HasSqlstate(sqlstate=str() as state):  # asyncpg, also wrapped by SQLAlchemy.
            return state
        case _:
            return None


def to_store_error(error: Exception) -> BaseException:
    """Return the error for the caller whose write failed.

    Assertions and headway's own errors are returned unchanged. A refused write is logged.
    """
    if isinstance(error, AssertionError | InfrastructureError):
        return error
    if is_serialization_conflict(error):
        # A lock timeout that is not retried any more is reported as an outage.
        return DatabaseUnavailable({"database": first_line(error)})
    log.error("write_failed", exc_info=error)
    failed = StoreFailed(f"the database refused the write ({first_line(error)}); nothing was saved")
    failed.__cause__ = error
    return failed
