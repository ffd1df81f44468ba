"""Keyset pagination: read the rows after a position, ordered by several columns."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa

T = TypeVar("T")
P = TypeVar("P")  # A position in the order.
CHUNK_ROW_COUNT: Final = 16
"""The number of rows per query if the rows may contain large documents."""


def keyset_condition(
    columns: Sequence[sa.ColumnElement[Any]],
    position: Sequence[Any],
    *,
    is_descending: bool = False,
) -> sa.ColumnElement[bool]:
    """Return the condition for the rows that follow `position` in the order of `columns`.

    `position` contains a value for each column. The condition is written out, because not every
    database uses an index for `(a, b) > (x, y)`.
    """
    (column, *others), (value, *rest) = columns, position
    is_beyond: sa.ColumnElement[bool] = column < value if is_descending else column > value
    if not others:
        return is_beyond
    return sa.or_(
        is_beyond,
        sa.and_(column == value, keyset_condition(others, rest, is_descending=is_descending)),
    )


async def iterate_in_chunks(
    read: Callable[[int, P], Awaitable[Sequence[T]]],
    position_of: Callable[[T], P],
    *,
    limit: int,
    after: P,
) -> AsyncIterator[T]:
    """Yield up to `limit` items after the position `after`, read in chunks as needed."""
    while limit > 0:
        count = min(limit, CHUNK_ROW_COUNT)
        items = await read(count, after)
        for item in items:
            yield item
        if len(items) < count:
            return
        limit -= count
        after = position_of(items[-1])
