"""The clocks of a run, and which of them rings next."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from headway.core.ids import Instant
from headway.core.run.run import Run
from headway.core.run.status import RunStatus


def apply_changes(run: Run, changes: Mapping[str, Any]) -> tuple[Run, dict[str, Any]]:
    """`run` with `changes`, and with `due_at` to match; and what is really new of them.

    A column that keeps its value is not written, and its indexes are left alone.
    """
    values = list(run)
    new: dict[str, Any] = {}
    for name, value in changes.items():
        place = _INDEXES[name]
        before = values[place]
        if before is not value and before != value:
            values[place] = new[name] = value
    due_at = next_deadline(values)
    if due_at != values[_DUE_AT]:
        values[_DUE_AT] = new["due_at"] = due_at
    return Run._make(values), new


# A third of the price of `_replace`, on the hottest path there is.
_INDEXES: Final = {name: place for place, name in enumerate(Run._fields)}
(
    _STATUS,
    _QUEUE_DEADLINE_AT,
    _RUN_DEADLINE_AT,
    _WAKE_AT,
    _CANCEL_DEADLINE_AT,
    _CHILDREN_ENDING_SINCE,
    _DUE_AT,
) = (
    _INDEXES[name]
    for name in (
        "status",
        "queue_deadline_at",
        "run_deadline_at",
        "wake_at",
        "cancel_deadline_at",
        "children_ending_since",
        "due_at",
    )
)


def next_deadline(values: Sequence[Any]) -> Instant | None:
    """The instant at which the sweep must look at a run, or None when nothing is due by itself.

    `values` are its fields: a Run, or what is about to become one.
    """
    status = values[_STATUS]
    if status is RunStatus.QUEUED:
        return cast("Instant | None", values[_QUEUE_DEADLINE_AT])
    if status is RunStatus.RUNNING:
        return _earliest(values[_RUN_DEADLINE_AT], values[_WAKE_AT])
    if status is RunStatus.CANCELLING:
        return _earliest(values[_CANCEL_DEADLINE_AT], values[_CHILDREN_ENDING_SINCE])
    return cast("Instant | None", values[_CHILDREN_ENDING_SINCE])


def _earliest(one: Instant | None, other: Instant | None) -> Instant | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def is_overdue(run: Run, now: Instant) -> bool:
    """Whether its queue or execution time is over. (A late cancel is forced, not expired.)"""
    by = run.queue_deadline_at if run.status is RunStatus.QUEUED else run.run_deadline_at
    return by is not None and by <= now
