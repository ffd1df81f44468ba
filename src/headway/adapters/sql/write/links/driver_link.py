"""The interface between the writer and a driver."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy.engine import Dialect

from headway.adapters.sql.statements import PlannedWrite, Query, Row, Write
from headway.core.run.events import Event


class Commit(NamedTuple):
    """The data of a committed batch that other processes and later connections need."""

    writer_id: str
    events: Sequence[Event]
    seq: int
    """The last `seq` of the stream after the batch."""
    epoch: int


class LinkNode(Protocol):
    """The database node that a link is connected to, one of possibly several nodes."""

    def check(self) -> None:
        """Raise ConnectionError if this node is no longer the primary."""
        ...

    def note_commit(self, commit: Commit) -> None:
        """Record `commit`, so that no node that lacks this commit is used later."""
        ...


class Link(Protocol):
    """One connection for writing, used by one thread."""

    dialect: Dialect
    now_sql: str | None
    """SQL for the database's clock in microseconds, or None if this machine's clock is used."""

    async def begin(self) -> None:
        """Begin a write transaction. On SQLite, also take the write lock.

        Raise ConnectionError if the node is no longer the primary.
        """
        ...

    async def commit(self, batch: Commit | None = None, /) -> None:
        """Commit the transaction, and notify other processes of the events of `batch`.

        No notice is sent if the database cannot send notices.
        """
        ...

    async def rollback(self) -> None:
        """Roll the transaction back, if one is open."""
        ...

    async def fetch(self, query: Query, parameters: Mapping[str, Any]) -> Sequence[Row]: ...

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        """Execute `query` once per item of `many`. Return all rows, in the order of `many`."""
        ...

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Execute `statement` for every row. Return the total number of matched rows."""
        ...

    async def write_all(self, plan: Sequence[PlannedWrite]) -> None:
        """Execute the writes in the order of `plan`, in as few round trips as possible.

        Raise GuardFailed if a guarded write does not match all of its rows.
        """
        ...

    async def close(self) -> None: ...
