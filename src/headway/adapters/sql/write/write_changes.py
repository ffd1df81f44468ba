"""Write the changes of a decided batch with few guarded statements, each for many rows.

A guard is a condition on the values that the row had when it was loaded. If a statement matches
fewer rows than it should, another writer has changed a row, and the batch is decided again. See
docs/internals/writer.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headway.adapters.sql.statements import Delete, Insert, PlannedWrite, Row, Update
from headway.adapters.sql.tables import (
    events,
    idempotency_keys,
    inbox,
    instances,
    interrupts,
    lanes,
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

# These columns prove that the row is the loaded one, with the same status and claim, and was not
# written since: every write of a run increments its revision.
RUN_GUARDS: Final = ("seq", "status", "token", "revision")
UPDATE_STREAM_SEQ: Final = Update(stream, ("seq",), ("id", "seq"))
_INSERT_EVENT: Final = Insert(events, Event._fields)
_INSERT_INBOX_ITEM: Final = Insert(inbox, InboxItem._fields)
_UPDATE_CONSUMED: Final = Update(inbox, ("consumed_generation",), ("run_id", "seq"))
_INSERT_IDEMPOTENCY_KEYS: Final = Insert(idempotency_keys, IdempotencyRecord._fields)
_LANE_COLUMNS: Final = tuple(column.name for column in lanes.c)
_INTERRUPT_KEY: Final = ("run_id", "call_id")
_FILE_GUARDS: Final = ("key", "data_id", "path", "run_id")
_KEY_COLUMNS: Final = tuple(column.name for column in saved_keys.c)


async def write_changes(
    link: Link, batch: BatchState, *, loaded_seq: int, writer_row: PlannedWrite | None = None
) -> None:
    """Write all changes of `batch`. Raise GuardFailed if another writer has changed a row.

    After GuardFailed the transaction is still open. `writer_row` is the update of the writer's own
    row, which is written last.
    """
    plan = [write for write in _plan_changes(batch, loaded_seq) if write.rows]
    await link.write_all(plan if writer_row is None else [*plan, writer_row])


def _plan_changes(batch: BatchState, loaded_seq: int) -> Iterator[PlannedWrite]:
    changes = batch.changes
    yield from _plan_lanes(batch)
    yield from _plan_instances(batch)
    yield from _plan_keys(batch)
    yield from _plan_schedules(batch)
    yield from _plan_runs(batch)
    if changes.flow is not None:
        yield from (PlannedWrite(*write) for write in plan_flow_changes(changes.flow))
    if changes.ended_task_ids:
        yield PlannedWrite(*plan_ended_tasks(batch), is_guarded=False)
    yield from _plan_interrupts(batch)
    yield from _plan_files(batch)
    yield PlannedWrite(_INSERT_EVENT, changes.events)
    yield PlannedWrite(_INSERT_INBOX_ITEM, changes.inbox_items_added)
    yield PlannedWrite(
        _UPDATE_CONSUMED,
        [
            (item.consumed_generation, item.run_id, item.seq)
            for item in changes.inbox_items_consumed
        ],
    )
    # Deletes come first: a removed key may be used again in the same batch.
    yield PlannedWrite(
        Delete(idempotency_keys, ("idempotency_key",)),
        [(key,) for key in changes.idempotency_keys_removed],
    )
    yield PlannedWrite(_INSERT_IDEMPOTENCY_KEYS, list(changes.idempotency_records_added.values()))
    if changes.runs_removed:
        removed = [(run_id,) for run_id in changes.runs_removed]
        yield PlannedWrite(Delete(runs, ("id",)), removed)
        yield PlannedWrite(Delete(inbox, ("run_id",)), removed, is_guarded=False)
        yield PlannedWrite(Delete(interrupts, ("run_id",)), removed, is_guarded=False)
        for statement, rows in plan_removed_tasks(batch):
            yield PlannedWrite(statement, rows, is_guarded=False)
    if changes.pruned_seq is not None:
        delete_events = Delete(events, ("seq",), is_upper_bound=True)
        yield PlannedWrite(delete_events, [(changes.pruned_seq,)], is_guarded=False)
        yield PlannedWrite(
            Update(stream, ("pruned_seq",), ("id",)),
            [(changes.pruned_seq, 1)],
            is_guarded=False,
        )
    if batch.seq != loaded_seq:
        yield PlannedWrite(UPDATE_STREAM_SEQ, [(batch.seq, 1, loaded_seq)])


def _plan_runs(batch: BatchState) -> Iterator[PlannedWrite]:
    changes = batch.changes
    if __debug__:
        for run_id in (*changes.runs_added, *changes.runs_changed):
            if run_id in batch.runs:
                batch.runs[run_id].check()
    # The old head of a key is written before the new one, because of the unique index.
    leaving, others = _split_leaving_heads(changes.runs_changed)
    for columns, rows in _group_updates(leaving, batch):
        yield PlannedWrite(Update(runs, columns, RUN_GUARDS), rows)
    for columns, rows in _group_inserts(changes.runs_added, batch):
        yield PlannedWrite(Insert(runs, columns), rows)
    for columns, rows in _group_updates(others, batch):
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


def _group_updates(changed: Mapping[RunId, dict[str, Any]], batch: BatchState) -> RowsByColumns:
    """Group the changed runs by their changed columns. Each group is one statement."""
    rows_by_columns: dict[tuple[str, ...], list[Row]] = {}
    for run_id, change in changed.items():
        if "status" in change:
            change["status"] = _PLAIN_VALUES[change["status"]]
        before = batch.loaded_runs[run_id]
        guards = (before.seq, _PLAIN_VALUES[before.status], before.token, before.revision)
        rows_by_columns.setdefault(tuple(change), []).append((*change.values(), *guards))
    return rows_by_columns.items()


def _group_inserts(added: Mapping[RunId, dict[str, Any]], batch: BatchState) -> RowsByColumns:
    """Group the added runs by the documents they have. Each group is one statement."""
    rows_by_documents: dict[tuple[str, ...], list[Row]] = {}
    for run_id, documents in added.items():
        run = batch.runs[run_id]
        values = [*run, *documents.values()]
        values[_MODE] = _PLAIN_VALUES[run.mode]
        values[_RECOVERY] = _PLAIN_VALUES[run.recovery]
        values[_STATUS] = _PLAIN_VALUES[run.status]
        rows_by_documents.setdefault(tuple(documents), []).append(tuple(values))
    return [((*Run._fields, *documents), rows) for documents, rows in rows_by_documents.items()]


_MODE: Final = Run._fields.index("mode")
_RECOVERY: Final = Run._fields.index("recovery")
_STATUS: Final = Run._fields.index("status")
# Drivers bind `StrEnum` members much slower than plain `str`.
_PLAIN_VALUES: Final = {
    member: member.value for kind in (RunStatus, RunMode, Recovery) for member in kind
}


def _plan_lanes(batch: BatchState) -> Iterator[PlannedWrite]:
    for lane in batch.changes.lanes.values():
        before = batch.loaded_lane_rows.get(lane.name)
        if before is None:
            yield PlannedWrite(Insert(lanes, _LANE_COLUMNS), [tuple(lane)])
        else:
            update = Update(lanes, _LANE_COLUMNS[1:], ("name", "revision"))
            yield PlannedWrite(update, [(*lane[1:], lane.name, before.revision)])


def _plan_instances(batch: BatchState) -> Iterator[PlannedWrite]:
    changes = batch.changes
    updated: list[Row] = []
    removed: list[Row] = []
    for instance_id, instance in changes.instances.items():
        if instance is None:
            removed.append((instance_id,))
        else:
            updated.append((instance.lease_expires_at, instance.is_dead, instance_id))
    yield PlannedWrite(Insert(instances, Instance._fields), list(changes.instances_added.values()))
    yield PlannedWrite(Update(instances, ("lease_expires_at", "is_dead"), ("id",)), updated)
    yield PlannedWrite(Delete(instances, ("id",)), removed)


def _plan_keys(batch: BatchState) -> Iterator[PlannedWrite]:
    for key, saved in batch.changes.keys.items():
        before = batch.loaded_keys.get(key)
        if before is None:
            if saved is not None:
                yield PlannedWrite(Insert(saved_keys, _KEY_COLUMNS), [tuple(saved)])
        elif saved is None:
            yield PlannedWrite(Delete(saved_keys, ("key", "revision")), [(key, before.revision)])
        else:
            update = Update(saved_keys, _KEY_COLUMNS[1:], ("key", "revision"))
            yield PlannedWrite(update, [(*saved[1:], key, before.revision)])


def _plan_interrupts(batch: BatchState) -> Iterator[PlannedWrite]:
    for key, interrupt in batch.changes.interrupts.items():
        is_new = key not in batch.loaded_interrupts
        if interrupt is None:
            if not is_new:
                yield PlannedWrite(Delete(interrupts, _INTERRUPT_KEY), [key])
        elif is_new:
            yield PlannedWrite(Insert(interrupts, Interrupt._fields), [tuple(interrupt)])
        else:
            update = Update(interrupts, Interrupt._fields[2:], _INTERRUPT_KEY)
            yield PlannedWrite(update, [(*interrupt[2:], *key)])


def _plan_schedules(batch: BatchState) -> Iterator[PlannedWrite]:
    for saved in batch.changes.schedules.values():
        before = batch.loaded_schedules.get(saved.name)
        if before is None:
            yield PlannedWrite(Insert(schedules, SavedSchedule._fields), [tuple(saved)])
        else:
            update = Update(schedules, SavedSchedule._fields[1:], ("name", "revision"))
            yield PlannedWrite(update, [(*saved[1:], saved.name, before.revision)])


def _plan_files(batch: BatchState) -> Iterator[PlannedWrite]:
    added: list[Row] = []
    changed: list[Row] = []
    removed: list[Row] = []
    for address, file in batch.changes.files.items():
        before = batch.loaded_files.get(address)
        if before is None:
            added += [] if file is None else [tuple(file)]
        elif file is None:
            removed.append((*address, before.run_id))
        else:
            changed.append((*file[3:], *address, before.run_id))
    yield PlannedWrite(Insert(run_files, StoredFile._fields), added)
    yield PlannedWrite(Update(run_files, StoredFile._fields[3:], _FILE_GUARDS), changed)
    yield PlannedWrite(Delete(run_files, _FILE_GUARDS), removed)
