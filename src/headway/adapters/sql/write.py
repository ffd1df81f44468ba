"""Write what a batch has decided: a few statements, each for many rows, each guarded."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headway.adapters.sql.flow_parts import remove_flow_runs, write_flows
from headway.adapters.sql.links.link import Link
from headway.adapters.sql.statements import Delete, GuardFailed, Insert, Row, Update, Write
from headway.adapters.sql.tables import (
    events,
    inbox,
    instances,
    lanes,
    questions,
    remembered,
    run_files,
    runs,
    saved_keys,
    schedules,
    stream,
)
from headway.core.files import StoredFile
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.core.run.run import Mode, Recovery, Run
from headway.core.run.status import RunStatus
from headway.core.world import InboxItem, Instance, Question, Remembered, SavedSchedule, World

# The row is the one that was locked, in the state in which it was decided on, under the claim that
# was in force, and nothing at all has happened to it since.
RUN_GUARDS: Final = ("seq", "status", "token", "revision")
STREAM_SEQ: Final = Update(stream, ("seq",), ("id", "seq"))
_EVENTS: Final = Insert(events, Event._fields)
_POSTED: Final = Insert(inbox, InboxItem._fields)
_CONSUMED: Final = Update(inbox, ("consumed_by",), ("run_id", "seq"))
_REMEMBERED: Final = Insert(remembered, Remembered._fields)
_LANE_COLUMNS: Final = tuple(column.name for column in lanes.c)
_QUESTION_KEY: Final = ("run_id", "call_id")
_FILE_GUARDS: Final = ("key", "data_id", "path", "run_id")
_KEY_COLUMNS: Final = tuple(column.name for column in saved_keys.c)


async def write_world(link: Link, world: World, *, loaded_seq: int) -> None:
    """Write all changes of `world`, or raise GuardFailed with the transaction still open."""
    changes = world.changes
    await _write_lanes(link, world)
    await _write_instances(link, world)
    await _write_keys(link, world)
    await _write_schedules(link, world)
    await _write_runs(link, world)
    if changes.flow is not None:
        await write_flows(link, changes.flow)
    await _write_questions(link, world)
    await _write_files(link, world)
    await _expect(link, _EVENTS, changes.events)
    await _expect(link, _POSTED, changes.posted)
    await _expect(
        link, _CONSUMED, [(item.consumed_by, item.run_id, item.seq) for item in changes.consumed]
    )
    # What is forgotten goes first: the same key may be used anew in this batch.
    forgotten = [(key,) for key in changes.forgotten]
    await _expect(link, Delete(remembered, ("idempotency_key",)), forgotten)
    await _expect(link, _REMEMBERED, list(changes.remembered.values()))
    if changes.runs_removed:
        removed = [(run_id,) for run_id in changes.runs_removed]
        await _expect(link, Delete(runs, ("id",)), removed)
        await link.write(Delete(inbox, ("run_id",)), removed)
        await link.write(Delete(questions, ("run_id",)), removed)
        await remove_flow_runs(link, world)
    if changes.events_pruned_to is not None:
        await link.write(Delete(events, ("seq",), is_prefix=True), [(changes.events_pruned_to,)])
        await link.write(Update(stream, ("pruned_seq",), ("id",)), [(changes.events_pruned_to, 1)])
    if world.seq != loaded_seq:
        await _expect(link, STREAM_SEQ, [(world.seq, 1, loaded_seq)])


async def _expect(link: Link, statement: Write, rows: list[Any]) -> None:
    if rows and await link.write(statement, rows) != len(rows):
        raise GuardFailed(statement)


async def _write_runs(link: Link, world: World) -> None:
    changes = world.changes
    if __debug__:
        for run_id in (*changes.runs_added, *changes.runs_changed):
            if run_id in world.runs:
                world.runs[run_id].check()
    # Who leaves the head of a key goes before who takes it, or the unique index would object.
    leaving, others = _split(changes.runs_changed)
    for columns, rows in _updates(leaving, world):
        await _expect(link, Update(runs, columns, RUN_GUARDS), rows)
    for columns, rows in _inserts(changes.runs_added, world):
        await _expect(link, Insert(runs, columns), rows)
    for columns, rows in _updates(others, world):
        await _expect(link, Update(runs, columns, RUN_GUARDS), rows)


def _split(
    changed: Mapping[RunId, dict[str, Any]],
) -> tuple[dict[RunId, dict[str, Any]], dict[RunId, dict[str, Any]]]:
    leaving: dict[RunId, dict[str, Any]] = {}
    others: dict[RunId, dict[str, Any]] = {}
    for run_id, change in changed.items():
        is_leaving = "head_key" in change and change["head_key"] is None
        (leaving if is_leaving else others)[run_id] = change
    return leaving, others


Shapes = Iterable[tuple[tuple[str, ...], list[Row]]]


def _updates(changed: Mapping[RunId, dict[str, Any]], world: World) -> Shapes:
    """Rows of the same columns travel in one statement."""
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for run_id, change in changed.items():
        if "status" in change:
            change["status"] = _PLAIN[change["status"]]
        before = world.loaded[run_id]
        guards = (before.seq, _PLAIN[before.status], before.token, before.revision)
        shapes.setdefault(tuple(change), []).append((*change.values(), *guards))
    return shapes.items()


def _inserts(added: Mapping[RunId, dict[str, Any]], world: World) -> Shapes:
    shapes: dict[tuple[str, ...], list[Row]] = {}
    for run_id, documents in added.items():
        run = world.runs[run_id]
        plain = (_PLAIN[run.mode], _PLAIN[run.recovery], _PLAIN[run.status])
        row = (*run[:5], *plain, *run[8:], *documents.values())
        shapes.setdefault(tuple(documents), []).append(row)
    return [((*Run._fields, *documents), rows) for documents, rows in shapes.items()]


# A driver pays dearly for a string that is also an enumeration's member.
_PLAIN: Final = {word: word.value for kind in (RunStatus, Mode, Recovery) for word in kind}


async def _write_lanes(link: Link, world: World) -> None:
    for lane in world.changes.lanes.values():
        before = world.loaded_lanes.get(lane.name)
        if before is None:
            await _expect(link, Insert(lanes, _LANE_COLUMNS), [tuple(lane)])
        else:
            update = Update(lanes, _LANE_COLUMNS[1:], ("name", "revision"))
            await _expect(link, update, [(*lane[1:], lane.name, before.revision)])


async def _write_instances(link: Link, world: World) -> None:
    changes = world.changes
    kept = [instance for instance in changes.instances.values() if instance is not None]
    renewed = [(one.lease_expires_at, one.is_dead, one.id) for one in kept]
    retired = [(key,) for key, instance in changes.instances.items() if instance is None]
    await _expect(link, Insert(instances, Instance._fields), list(changes.instances_added.values()))
    await _expect(link, Update(instances, ("lease_expires_at", "is_dead"), ("id",)), renewed)
    await _expect(link, Delete(instances, ("id",)), retired)


async def _write_keys(link: Link, world: World) -> None:
    for key, saved in world.changes.keys.items():
        before = world.loaded_keys.get(key)
        if before is None:
            if saved is not None:
                await _expect(link, Insert(saved_keys, _KEY_COLUMNS), [tuple(saved)])
        elif saved is None:
            await _expect(link, Delete(saved_keys, ("key", "revision")), [(key, before.revision)])
        else:
            update = Update(saved_keys, _KEY_COLUMNS[1:], ("key", "revision"))
            await _expect(link, update, [(*saved[1:], key, before.revision)])


async def _write_questions(link: Link, world: World) -> None:
    for place, question in world.changes.questions.items():
        is_new = place not in world.loaded_questions
        if question is None:
            if not is_new:
                await _expect(link, Delete(questions, _QUESTION_KEY), [place])
        elif is_new:
            await _expect(link, Insert(questions, Question._fields), [tuple(question)])
        else:
            update = Update(questions, Question._fields[5:], _QUESTION_KEY)
            await _expect(link, update, [(*question[5:], *place)])


async def _write_schedules(link: Link, world: World) -> None:
    for saved in world.changes.schedules.values():
        before = world.loaded_schedules.get(saved.name)
        if before is None:
            await _expect(link, Insert(schedules, SavedSchedule._fields), [tuple(saved)])
        else:
            update = Update(schedules, SavedSchedule._fields[1:], ("name", "revision"))
            await _expect(link, update, [(*saved[1:], saved.name, before.revision)])


async def _write_files(link: Link, world: World) -> None:
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
    await _expect(link, Insert(run_files, StoredFile._fields), added)
    await _expect(link, Update(run_files, StoredFile._fields[3:], _FILE_GUARDS), changed)
    await _expect(link, Delete(run_files, _FILE_GUARDS), dropped)
