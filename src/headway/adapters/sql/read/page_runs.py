"""Pages of runs: every filter has an index in which `seq` comes next, so a page reads its own rows.

One column leads: its index gives the rows in the order of the page. Whatever else is wanted is
compared as an expression, of which no index knows, or a database without figures of its own might
rather take the index in which a million rows are alike. Of several states each has a query of its
own; their rows are merged.
"""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.tables import runs
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE
from headway.ports.run_reader import RunFilter

_EMPTY_STRING: Final[sa.ColumnClause[str]] = sa.literal_column("''")
_UNINDEXED_SEQ: Final = runs.c.seq + sa.literal_column("0")


def page_queries(
    select: sa.Select[Any], wanted: RunFilter, *, limit: int, before_seq: int | None
) -> Sequence[sa.Select[Any]]:
    """Queries, newest first and each of `limit` rows, that give the page between them."""
    paged = select.limit(limit)
    if before_seq is not None:
        paged = paged.where(runs.c.seq < before_seq)
    equal = {
        name: value
        for name, value in (("key", wanted.key), ("job", wanted.job), ("lane", wanted.lane))
        if value is not None
    }
    if wanted.key is not None and wanted.statuses and wanted.statuses <= ACTIVE:
        return [_select_active_of_key(paged, wanted, equal)]
    ordered = paged.order_by(runs.c.seq.desc())
    # What went well is most of it: there anything else finds its rows sooner.
    leads = wanted.statuses and not (equal and RunStatus.SUCCEEDED in wanted.statuses)
    if leads and "key" not in equal:
        others = _add_unindexed_filters(ordered, equal)
        return [others.where(runs.c.status == status.value) for status in sorted(wanted.statuses)]
    query = ordered
    if wanted.statuses:
        query = query.where(_unindexed(runs.c.status).in_(sorted(wanted.statuses)))
    if equal:
        lead, *_ = equal
        query = query.where(runs.c[lead] == equal.pop(lead))
    return [_add_unindexed_filters(query, equal)]


def _select_active_of_key(
    query: sa.Select[Any], wanted: RunFilter, equal: dict[str, Any]
) -> sa.Select[Any]:
    """From the two indexes that hold active runs only, whatever the key has behind it."""
    key = equal.pop("key")
    is_active = (runs.c.head_key == key) | (runs.c.waiting_key == key)
    asked = query.where(is_active, _unindexed(runs.c.status).in_(sorted(wanted.statuses)))
    return _add_unindexed_filters(asked, equal).order_by(_UNINDEXED_SEQ.desc())


def _add_unindexed_filters(query: sa.Select[Any], equal: dict[str, Any]) -> sa.Select[Any]:
    return query.where(*(_unindexed(runs.c[name]) == value for name, value in equal.items()))


def _unindexed(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    return column.concat(_EMPTY_STRING)
