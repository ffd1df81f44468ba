"""Pages by keyset: what comes after a place in an order of several columns."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa


def beyond(
    columns: Sequence[sa.ColumnElement[Any]], place: Sequence[Any], *, is_falling: bool = False
) -> sa.ColumnElement[bool]:
    """Rows after `place`; written out, because not every database compares rows by an index."""
    (column, *others), (value, *rest) = columns, place
    is_beyond: sa.ColumnElement[bool] = column < value if is_falling else column > value
    if not others:
        return is_beyond
    return sa.or_(is_beyond, sa.and_(column == value, beyond(others, rest, is_falling=is_falling)))
