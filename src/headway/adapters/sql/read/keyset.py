"""Pages by keyset: what comes after a place in an order of several columns, a few rows at once."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa

T = TypeVar("T")
P = TypeVar("P")
CHUNK_ROW_COUNT: Final = 16
"""How many rows are read at once whose documents may be large."""


def keyset_condition(
    columns: Sequence[sa.ColumnElement[Any]], place: Sequence[Any], *, is_descending: bool = False
) -> sa.ColumnElement[bool]:
    """Rows after `place`; written out, because not every database compares rows by an index."""
    (column, *others), (value, *rest) = columns, place
    is_beyond: sa.ColumnElement[bool] = column < value if is_descending else column > value
    if not others:
        return is_beyond
    return sa.or_(
        is_beyond,
        sa.and_(column == value, keyset_condition(others, rest, is_descending=is_descending)),
    )


async def iterate_in_chunks(
    read: Callable[[int, P], Awaitable[Sequence[T]]],
    place_of: Callable[[T], P],
    *,
    limit: int,
    after: P,
) -> AsyncIterator[T]:
    """So many of what `read` finds after a place, each read when its turn is near."""
    while limit > 0:
        count = min(limit, CHUNK_ROW_COUNT)
        found = await read(count, after)
        for one in found:
            yield one
        if len(found) < count:
            return
        limit -= count
        after = place_of(found[-1])
