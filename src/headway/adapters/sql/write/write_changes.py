"""Write what a batch has decided: a few statements, each for many rows, each guarded."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headway.adapters.sql.statements import Delete, Insert, PlannedWrite, Row, Update
from headway.adapters.sql.tables import (
    events,
    inbox,
    instances,
    interrupts,
    lanes,
    remembered,
    run_files,
    runs,
    saved_keys,
    schedules,
    stream,
)
from headway.adapters.sql.write.flow_rows import (
    plan_ended_tasks,
    plan_flow_changes,
    plan_removed_tasks,
)
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.batch_state import BatchState, IdempotencyRecord, InboxItem, Instance, Interrupt
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.core.run.run import Recovery, Run, RunMode
from headway.core.run.status import RunStatus
from headway.core.schedule import SavedSchedule
from headway.core.stored_file import StoredFile

# The row is the one that was locked, in the state in which it was decided on, under the claim that
# was in force, and nothing at all has happened to it since.
RUN_GUARDS: Final = ("seq", "status", "token", "revision")
UPDATE_STREAM_SEQ: Final = Update(stream, ("seq",), ("id", "seq"))
_INSERT_EVENT: Final = Insert(events, Event._fields)
_INSERT_INBOX_ITEM: Final = Insert(inbox, InboxItem._fields)
_UPDATE_CONSUMED: Final = Update(inbox, ("consumed_generation",), ("run_id", "seq"))
_INSERT_REMEMBERED: Final = Insert(remembered, IdempotencyRecord._fields)
_LANE_COLUMNS: Final = tuple(column.name for column in lanes.c)
_INTERRUPT_KEY: Final = ("run_id", "call_id")
_FILE_GUARDS: Final = ("key", "data_id", "path", "run_id")
_KEY_COLUMNS: Final = tuple(column.name for column in saved_keys.c)


async def write_changes(
    link: Link, world: BatchState, *, loaded_seq: int, writer_row: PlannedWrite | None = None
) -> None:
    """Write all changes of `world`, or raise GuardFailed with the transaction still open.

    `own` is what the writer notes of the batch; it is written with the rest.
    """
    plan = [one for one in _plan_changes(world, loaded_seq) if one.rows]
    await link.write_all(plan if writer_row is None else [*plan, writer_row])


def _plan_changes(world: BatchState, loaded_seq: int) -> Iterator[PlannedWrite]:
    changes = world.changes
    yield from _plan_lanes(world)
    yield from _plan_instances(world)
    yield from _plan_keys(world)
    yield from _plan_schedules(world)
    yield from _plan_runs(world)
    if changes.flow is not None:
        yield from (PlannedWrite(*one) for one in plan_flow_changes(changes.flow))
    yield from (PlannedWrite(*one, is_guarded=False) for one in plan_ended_tasks(world))
    yield from _plan_interrupts(world)
    yield from _plan_files(world)
    yield PlannedWrite(_INSERT_EVENT, changes.events)
    yield PlannedWrite(_INSERT_INBOX_ITEM, changes.inbox_items_added)
    yield PlannedWrite(
        _UPDATE_CONSUMED,
        [
            (item.consumed_generation, item.run_id, item.seq)
            for item in changes.inbox_items_consumed
        ],
    )
    # What is forgotten goes first: the same key may be used anew in this batch.
    yield PlannedWrite(
        Delete(remembered, ("idempotency_key",)),
        [(key,) for key in changes.idempotency_keys_removed],
    )
    yield PlannedWrite(_INSERT_REMEMBERED, list(changes.idempotency_records_added.values()))
    if changes.runs_removed:
        removed = [(run_id,) for run_id in changes.runs_removed]
        yield PlannedWrite(Delete(runs, ("id",)), removed)
        yield PlannedWrite(Delete(inbox, ("run_id",)), removed, is_guarded=False)
        yield PlannedWrite(Delete(interrupts, ("run_id",)), removed, is_guarded=False)
        for statement, rows in plan_removed_tasks(world):
            yield PlannedWrite(statement, rows, is_guarded=False)
    if changes.pruned_seq is not None:
        old = Delete(events, ("seq",), is_upper_bound=True)
        yield PlannedWrite(old, [(changes.pruned_seq,)], is_guarded=False)
        yield PlannedWrite(
            Update(stream, ("pruned_seq",), ("id",)),
            [(changes.pruned_seq, 1)],
            is_guarded=False,
        )
    if world.seq != loaded_seq:
        yield PlannedWrite(UPDATE_STREAM_SEQ, [(world.seq, 1, loaded_seq)])


def _plan_runs(world: BatchState) -> Iterator[PlannedWrite]:
    changes = world.changes
    if __debug__:
        for run_id in (*changes.runs_added, *changes.runs_changed):
            if run_id in world.runs:
                world.runs[run_id].check()
    # Who leaves the head of a key goes before who takes it, or the unique index would object.
    leaving, others = _split_leaving_heads(changes.runs_changed)
    for columns, rows in _group_updates(leaving, world):
        yield PlannedWrite(Update(runs, columns, RUN_GUARDS), rows)
    for columns, rows in _group_inserts(changes.runs_added, world):
        yield PlannedWrite(Insert(runs, columns), rows)
    for columns, rows in _group_updates(others, world):
        yield PlannedWrite(Update(runs, columns, RUN_GUARDS), rows)


def _split_leaving_heads(
    changed: Mapping[RunId, dict[str, Any]],
) -> tuple[dict[RunId, dict[str, Any]], dict[RunId, dict[str, Any]]]:
    leaving: dict[RunId, dict[str, Any]] = {}
    others: dict[RunId, dict[str, Any]] = {}
    for run_id, change in changed.items():
        is_leaving = "head_key" in change and change["head_key"] is None
        (leaving if is_leaving else others)[run_id] = change
    return leaving, others


RowsByColumns = Iterable[tuple[tuple[str, ...], list[Row]]]


def _group_updates(changed: Mapping[RunId, dict[str, Any]], world: BatchState) -> RowsByColumns:
    """Rows of the same columns travel in one statement."""
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for run_id, change in changed.items():
        if "status" in change:
            change["status"] = _PLAIN_VALUES[change["status"]]
        before = world.loaded_runs[run_id]
        guards = (before.seq, _PLAIN_VALUES[before.status], before.token, before.revision)
        shapes.setdefault(tuple(change), []).append((*change.values(), *guards))
    return shapes.items()


def _group_inserts(added: Mapping[RunId, dict[str, Any]], world: BatchState) -> RowsByColumns:
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for run_id, documents in added.items():
        run = world.runs[run_id]
        plain = (_PLAIN_VALUES[run.mode], _PLAIN_VALUES[run.recovery], _PLAIN_VALUES[run.status])
        row = (*run[:5], *plain, *run[8:], *documents.values())
        shapes.setdefault(tuple(documents), []).append(row)
    return [((*Run._fields, *documents), rows) for documents, rows in shapes.items()]


# A driver pays dearly for a string that is also an enumeration's member.
_PLAIN_VALUES: Final = {
    word: word.value for kind in (RunStatus, RunMode, Recovery) for word in kind
}


def _plan_lanes(world: BatchState) -> Iterator[PlannedWrite]:
    for lane in world.changes.lanes.values():
        before = world.loaded_lane_rows.get(lane.name)
        if before is None:
            yield PlannedWrite(Insert(lanes, _LANE_COLUMNS), [tuple(lane)])
        else:
            update = Update(lanes, _LANE_COLUMNS[1:], ("name", "revision"))
            yield PlannedWrite(update, [(*lane[1:], lane.name, before.revision)])


def _plan_instances(world: BatchState) -> Iterator[PlannedWrite]:
    changes = world.changes
    kept = [instance for instance in changes.instances.values() if instance is not None]
    renewed = [(one.lease_expires_at, one.is_dead, one.id) for one in kept]
    retired = [(key,) for key, instance in changes.instances.items() if instance is None]
    yield PlannedWrite(Insert(instances, Instance._fields), list(changes.instances_added.values()))
    yield PlannedWrite(Update(instances, ("lease_expires_at", "is_dead"), ("id",)), renewed)
    yield PlannedWrite(Delete(instances, ("id",)), retired)


def _plan_keys(world: BatchState) -> Iterator[PlannedWrite]:
    for key, saved in world.changes.keys.items():
        before = world.loaded_keys.get(key)
        if before is None:
            if saved is not None:
                yield PlannedWrite(Insert(saved_keys, _KEY_COLUMNS), [tuple(saved)])
        elif saved is None:
            yield PlannedWrite(Delete(saved_keys, ("key", "revision")), [(key, before.revision)])
        else:
            update = Update(saved_keys, _KEY_COLUMNS[1:], ("key", "revision"))
            yield PlannedWrite(update, [(*saved[1:], key, before.revision)])


def _plan_interrupts(world: BatchState) -> Iterator[PlannedWrite]:
    for place, question in world.changes.interrupts.items():
        is_new = place not in world.loaded_interrupts
        if question is None:
            if not is_new:
                yield PlannedWrite(Delete(interrupts, _INTERRUPT_KEY), [place])
        elif is_new:
            yield PlannedWrite(Insert(interrupts, Interrupt._fields), [tuple(question)])
        else:
            update = Update(interrupts, Interrupt._fields[2:], _INTERRUPT_KEY)
            yield PlannedWrite(update, [(*question[2:], *place)])


def _plan_schedules(world: BatchState) -> Iterator[PlannedWrite]:
    for saved in world.changes.schedules.values():
        before = world.loaded_schedules.get(saved.name)
        if before is None:
            yield PlannedWrite(Insert(schedules, SavedSchedule._fields), [tuple(saved)])
        else:
            update = Update(schedules, SavedSchedule._fields[1:], ("name", "revision"))
            yield PlannedWrite(update, [(*saved[1:], saved.name, before.revision)])


def _plan_files(world: BatchState) -> Iterator[PlannedWrite]:
    added: list[Row] = []
    changed: list[Row] = []
    dropped: list[Row] = []
    for place, file in world.changes.files.items():
        before = world.loaded_files.get(place)
        if before is None:
            added += [] if file is None else [tuple(file)]
        elif file is None:
            dropped.append((*place, before.run_id))
        else:
            changed.append((*file[3:], *place, before.run_id))
    yield PlannedWrite(Insert(run_files, StoredFile._fields), added)
    yield PlannedWrite(Update(run_files, StoredFile._fields[3:], _FILE_GUARDS), changed)
    yield PlannedWrite(Delete(run_files, _FILE_GUARDS), dropped)
