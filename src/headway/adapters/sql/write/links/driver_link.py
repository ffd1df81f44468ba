"""What the writer needs of a driver. One link is one connection, used by one thread."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy.engine import Dialect

from headway.adapters.sql.statements import PlannedWrite, Query, Row, Write


class Link(Protocol):
    dialect: Dialect
    now_sql: str | None
    """The database's clock in microseconds, or None: this process's clock is the database's."""

    async def begin(self) -> None:
        """Open a write transaction; on a database without row locks, the write lock is taken."""
        ...

    async def commit(self, notice: str | None = None, /) -> None:
        """With the commit, and only if it happens, others are told `notice`, where that can be."""
        ...

    async def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        ...

    async def fetch(self, query: Query, parameters: Mapping[str, Any]) -> Sequence[Row]: ...

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        """The rows of `query` for each set of parameters, one after the other."""
        ...

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        """Run `statement` for every row; how many rows it matched in all."""
        ...

    async def write_all(self, plan: Sequence[PlannedWrite]) -> None:
        """In this order, and in as few exchanges as can be; GuardFailed: something has changed."""
        ...

    async def close(self) -> None: ...
