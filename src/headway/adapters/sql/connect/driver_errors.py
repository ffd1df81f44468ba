"""What an error of a driver means for the one who got it.

Each takes the driver's own error or SQLAlchemy's around it. None of them needs the driver: an error
of one that is not installed cannot come.
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
# 25P03: idle for too long inside a transaction. 57P0x: the server stops, crashed, or is starting.
DISCONNECT_CODES: Final = frozenset(
    {"25P03", "57P01", "57P02", "57P03", "57P05"} | {1053, 1927, 2003, 2006, 2013, 2055, 4031}
)
DISCONNECT_CLASS: Final = "08"
# A limit of the server's ran out; a disk or a file cannot be read.
OUTAGE_CODES: Final = frozenset(
    {"57014", 1969, 3024} | {"SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_NOMEM"}
)
OUTAGE_CLASS: Final = "53"
DRIVER_MODULES: Final = frozenset({"asyncpg", "aiomysql", "pymysql", "sqlalchemy"})
# asyncpg and aiomysql give these neither a code nor a class of their own.
DISCONNECT_MESSAGES: Final = (
    "connection is closed",
    "connection was closed",
    "not connected",
    "already closed",
    # The server has said goodbye, and that the line is down has not been seen yet.
    "cannot switch to state",
)


@runtime_checkable
class _HasSqlstate(Protocol):
    sqlstate: str | None


def is_duplicate(error: BaseException) -> bool:
    """A row with this key is there already."""
    return _error_code(error) in DUPLICATE_CODES


def is_serialization_conflict(error: BaseException) -> bool:
    """Others held the rows: the transaction is undone, and the same again may succeed."""
    return _error_code(error) in CONFLICT_CODES


def is_read_only(error: BaseException) -> bool:
    """The node has stopped taking writes: it is no longer the primary."""
    return _error_code(error) in READ_ONLY_CODES


def is_disconnect(error: BaseException) -> bool:
    """The connection is gone. Whether a commit under way has landed is not known."""
    if isinstance(error, DatabaseUnavailable | ConnectionError):
        return True
    if isinstance(error, OSError):
        # A limit that ran out has no number, and its connection lives.
        return error.errno is not None
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    code = _error_code(error)
    if code is None:
        is_drivers = type(error).__module__.partition(".")[0] in DRIVER_MODULES
        return is_drivers and any(word in str(error).lower() for word in DISCONNECT_MESSAGES)
    return code in DISCONNECT_CODES or (isinstance(code, str) and code.startswith(DISCONNECT_CLASS))


def is_outage(error: BaseException) -> bool:
    """For who only reads: it is not to be had now, and may be in a while."""
    code = _error_code(error)
    is_short = code in OUTAGE_CODES or (isinstance(code, str) and code.startswith(OUTAGE_CLASS))
    return is_short or is_disconnect(error) or is_serialization_conflict(error)


def is_conflict(error: BaseException) -> bool:
    """Others were quicker: what was decided no longer fits what is there."""
    return isinstance(error, GuardFailed) or is_duplicate(error) or is_serialization_conflict(error)


def is_transient(error: BaseException) -> bool:
    """Whether the same again may succeed."""
    is_lost = is_disconnect(error) or is_read_only(error) or isinstance(error, TimeoutError)
    return is_lost or is_conflict(error)


def first_line(error: BaseException) -> str:
    """What the driver says, without the rows that some add below."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _error_code(error: BaseException) -> str | int | None:
    match error:
        case DBAPIError(orig=BaseException() as orig):
            return _error_code(orig)
        case sqlite3.Error(sqlite_errorname=str() as name):
            # SQLITE_BUSY_SNAPSHOT is SQLITE_BUSY; which constraint it was, says only the last word.
            is_constraint = name.startswith("SQLITE_CONSTRAINT")
            return name if is_constraint else "_".join(name.split("_")[:2])
        case OSError():  # Its number is the operating system's.
            return None
        case BaseException(args=(int() as number, *_)):  # pymysql; its states are too coarse
            return number
        case _HasSqlstate(sqlstate=str() as state):  # asyncpg, and SQLAlchemy's translation of it
            return state
        case _:
            return None


def to_store_error(error: Exception) -> BaseException:
    """What the one whose write failed is told: our own mistake as it is, else that it failed."""
    if isinstance(error, AssertionError | InfrastructureError):
        return error
    if is_serialization_conflict(error):
        # Somebody holds what it needs for longer than anybody would wait: it is as good as away.
        return DatabaseUnavailable({"database": first_line(error)})
    log.error("write_failed", exc_info=error)
    failed = StoreFailed(f"the write was refused ({first_line(error)}); nothing of it was kept")
    failed.__cause__ = error
    return failed
