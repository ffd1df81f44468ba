"""Write what a batch has decided: a few statements, each for many rows, each guarded."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from headway.adapters.sql.statements import Delete, Insert, Planned, Row, Update
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
from headway.adapters.sql.write.flow_rows import ended_flow_runs, flow_plan, removed_flow_runs
from headway.adapters.sql.write.links.driver_link import Link
from headway.core.batch_state import InboxItem, Instance, Question, Remembered, World
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.core.run.run import Mode, Recovery, Run
from headway.core.run.status import RunStatus
from headway.core.schedule import SavedSchedule
from headway.core.stored_file import StoredFile

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


async def write_world(
    link: Link, world: World, *, loaded_seq: int, own: Planned | None = None
) -> None:
    """Write all changes of `world`, or raise GuardFailed with the transaction still open.

    `own` is what the writer notes of the batch; it is written with the rest.
    """
    plan = [one for one in _plan(world, loaded_seq) if one.rows]
    await link.write_all(plan if own is None else [*plan, own])


def _plan(world: World, loaded_seq: int) -> Iterator[Planned]:
    changes = world.changes
    yield from _lanes(world)
    yield from _instances(world)
    yield from _keys(world)
    yield from _schedules(world)
    yield from _runs(world)
    if changes.flow is not None:
        yield from (Planned(*one) for one in flow_plan(changes.flow))
    yield from (Planned(*one, is_guarded=False) for one in ended_flow_runs(world))
    yield from _questions(world)
    yield from _files(world)
    yield Planned(_EVENTS, changes.events)
    yield Planned(_POSTED, changes.posted)
    yield Planned(
        _CONSUMED, [(item.consumed_by, item.run_id, item.seq) for item in changes.consumed]
    )
    # What is forgotten goes first: the same key may be used anew in this batch.
    yield Planned(Delete(remembered, ("idempotency_key",)), [(key,) for key in changes.forgotten])
    yield Planned(_REMEMBERED, list(changes.remembered.values()))
    if changes.runs_removed:
        removed = [(run_id,) for run_id in changes.runs_removed]
        yield Planned(Delete(runs, ("id",)), removed)
        yield Planned(Delete(inbox, ("run_id",)), removed, is_guarded=False)
        yield Planned(Delete(questions, ("run_id",)), removed, is_guarded=False)
        for statement, rows in removed_flow_runs(world):
            yield Planned(statement, rows, is_guarded=False)
    if changes.events_pruned_to is not None:
        old = Delete(events, ("seq",), is_prefix=True)
        yield Planned(old, [(changes.events_pruned_to,)], is_guarded=False)
        yield Planned(
            Update(stream, ("pruned_seq",), ("id",)),
            [(changes.events_pruned_to, 1)],
            is_guarded=False,
        )
    if world.seq != loaded_seq:
        yield Planned(STREAM_SEQ, [(world.seq, 1, loaded_seq)])


def _runs(world: World) -> Iterator[Planned]:
    changes = world.changes
    if __debug__:
        for run_id in (*changes.runs_added, *changes.runs_changed):
            if run_id in world.runs:
                world.runs[run_id].check()
    # Who leaves the head of a key goes before who takes it, or the unique index would object.
    leaving, others = _split(changes.runs_changed)
    for columns, rows in _updates(leaving, world):
        yield Planned(Update(runs, columns, RUN_GUARDS), rows)
    for columns, rows in _inserts(changes.runs_added, world):
        yield Planned(Insert(runs, columns), rows)
    for columns, rows in _updates(others, world):
        yield Planned(Update(runs, columns, RUN_GUARDS), rows)


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


def _lanes(world: World) -> Iterator[Planned]:
    for lane in world.changes.lanes.values():
        before = world.loaded_lanes.get(lane.name)
        if before is None:
            yield Planned(Insert(lanes, _LANE_COLUMNS), [tuple(lane)])
        else:
            update = Update(lanes, _LANE_COLUMNS[1:], ("name", "revision"))
            yield Planned(update, [(*lane[1:], lane.name, before.revision)])


def _instances(world: World) -> Iterator[Planned]:
    changes = world.changes
    kept = [instance for instance in changes.instances.values() if instance is not None]
    renewed = [(one.lease_expires_at, one.is_dead, one.id) for one in kept]
    retired = [(key,) for key, instance in changes.instances.items() if instance is None]
    yield Planned(Insert(instances, Instance._fields), list(changes.instances_added.values()))
    yield Planned(Update(instances, ("lease_expires_at", "is_dead"), ("id",)), renewed)
    yield Planned(Delete(instances, ("id",)), retired)


def _keys(world: World) -> Iterator[Planned]:
    for key, saved in world.changes.keys.items():
        before = world.loaded_keys.get(key)
        if before is None:
            if saved is not None:
                yield Planned(Insert(saved_keys, _KEY_COLUMNS), [tuple(saved)])
        elif saved is None:
            yield Planned(Delete(saved_keys, ("key", "revision")), [(key, before.revision)])
        else:
            update = Update(saved_keys, _KEY_COLUMNS[1:], ("key", "revision"))
            yield Planned(update, [(*saved[1:], key, before.revision)])


def _questions(world: World) -> Iterator[Planned]:
    for place, question in world.changes.questions.items():
        is_new = place not in world.loaded_questions
        if question is None:
            if not is_new:
                yield Planned(Delete(questions, _QUESTION_KEY), [place])
        elif is_new:
            yield Planned(Insert(questions, Question._fields), [tuple(question)])
        else:
            update = Update(questions, Question._fields[2:], _QUESTION_KEY)
            yield Planned(update, [(*question[2:], *place)])


def _schedules(world: World) -> Iterator[Planned]:
    for saved in world.changes.schedules.values():
        before = world.loaded_schedules.get(saved.name)
        if before is None:
            yield Planned(Insert(schedules, SavedSchedule._fields), [tuple(saved)])
        else:
            update = Update(schedules, SavedSchedule._fields[1:], ("name", "revision"))
            yield Planned(update, [(*saved[1:], saved.name, before.revision)])


def _files(world: World) -> Iterator[Planned]:
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
    yield Planned(Insert(run_files, StoredFile._fields), added)
    yield Planned(Update(run_files, StoredFile._fields[3:], _FILE_GUARDS), changed)
    yield Planned(Delete(run_files, _FILE_GUARDS), dropped)
