"""Build the queries for pages of runs, so that a page reads only its own rows.

Each filter column has an index with `seq` as its next column. The leading filter uses its index,
which returns the rows in page order. Each other filter is an expression that no index covers.
Otherwise a database without statistics might choose an index in which a million rows have the same
value. For several statuses there is one query per status, and the rows are merged.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.tables import runs
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE
from headway.ports.run_reader import RunFilter

_EMPTY_STRING: Final[sa.ColumnClause[str]] = sa.literal_column("''")
_UNINDEXED_SEQ: Final = runs.c.seq + sa.literal_column("0")


def page_queries(
    select: sa.Select[Any], run_filter: RunFilter, *, limit: int, before_seq: int | None
) -> Sequence[sa.Select[Any]]:
    """Return the queries for a page. Each returns at most `limit` rows, the newest first.

    The page consists of the newest `limit` rows of all queries.
    """
    paged = select.limit(limit)
    if before_seq is not None:
        paged = paged.where(runs.c.seq < before_seq)
    equal = {
        name: value
        for name, value in (
            ("key", run_filter.key),
            ("job", run_filter.job),
            ("lane", run_filter.lane),
        )
        if value is not None
    }
    statuses = run_filter.statuses
    if run_filter.key is not None and statuses and statuses <= ACTIVE:
        return [_select_active_of_key(paged, statuses, equal)]
    ordered = paged.order_by(runs.c.seq.desc())
    # Most runs succeeded, so any other filter finds the rows faster than that status.
    is_status_leading = bool(statuses) and not (equal and RunStatus.SUCCEEDED in statuses)
    if is_status_leading and "key" not in equal:
        others = _add_unindexed_filters(ordered, equal)
        return [others.where(runs.c.status == status.value) for status in sorted(statuses)]
    query = ordered
    if statuses:
        query = query.where(_unindexed(runs.c.status).in_(sorted(statuses)))
    if equal:
        leading, *_ = equal
        query = query.where(runs.c[leading] == equal.pop(leading))
    return [_add_unindexed_filters(query, equal)]


def _select_active_of_key(
    query: sa.Select[Any], statuses: Collection[RunStatus], equal: dict[str, Any]
) -> sa.Select[Any]:
    """Return a query for a key's active runs. It uses their two indexes and skips ended runs."""
    key = equal.pop("key")
    is_active = (runs.c.head_key == key) | (runs.c.waiting_key == key)
    active = query.where(is_active, _unindexed(runs.c.status).in_(sorted(statuses)))
    return _add_unindexed_filters(active, equal).order_by(_UNINDEXED_SEQ.desc())


def _add_unindexed_filters(query: sa.Select[Any], equal: dict[str, Any]) -> sa.Select[Any]:
    return query.where(*(_unindexed(runs.c[name]) == value for name, value in equal.items()))


def _unindexed(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    """Return an expression with the value of `column`, for which no index can be used."""
    return column.concat(_EMPTY_STRING)
