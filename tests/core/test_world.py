"""A World: what a batch has locked, and what it decides, one command after the other."""

from typing import Any

import pytest

from headway.core.batch_state import BatchState, LaneQueue
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.submit import Accepted, Busy
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.lane_row import LaneRow, default_lane
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Claim, QueueRank, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL, Trigger
from headway.testing import a_run, a_submit

NOW = Instant(1000)
MAIN = LaneName("main")


def a_world(*runs: Run, waiting: dict[str, list[Run]] | None = None, limit: int = 3) -> BatchState:
    world = BatchState(now=NOW, seq=100)
    world.lane_rows[MAIN] = LaneRow(MAIN, limit)
    world.lane_queues[MAIN] = LaneQueue(LaneRow(MAIN, limit))
    for run in runs:
        world.load_run(run)
        world.waiting_run_ids.setdefault(run.key, [])
    for key, behind in (waiting or {}).items():
        for run in behind:
            world.load_run(run)
        world.waiting_run_ids[Key(key)] = [run.id for run in behind]
    return world


def a_running(**wanted: Any) -> Run:
    held = {"status": RunStatus.RUNNING, "slot": MAIN, "token": "t", "instance_id": "me"}
    return a_run(**{**held, "queue_rank": None, "ready_seq": None, **wanted})


def behind(seq: int) -> Run:
    return a_run(
        seq=seq, head_key=None, waiting_key="ann", queue_rank=QueueRank.BEHIND, ready_seq=None
    )


@pytest.mark.proves("I2")
def test_the_fence_lets_the_claim_in_force_pass_and_no_other() -> None:
    run = a_running(token="new")
    world = a_world(run)
    assert world.held_run(Claim(run.id, "new")) is run
    assert world.held_run(Claim(run.id, "old")) is None
    assert world.held_run(Claim(run.id, NO_TOKEN)) is None
    assert world.held_run(Claim(RunId("other"), "new")) is None


@pytest.mark.proves("I2")
def test_no_token_is_no_claim() -> None:
    run = a_run()
    assert a_world(run).held_run(Claim(run.id, NO_TOKEN)) is None


@pytest.mark.proves("R2.7")
def test_a_move_has_its_one_event() -> None:
    run = a_running(run_seq=4, revision=9)
    world = a_world(run)
    moved = world.move(run, Trigger.CANCEL, cancel_deadline_at=Instant(2000))
    assert moved is not None
    (event,) = world.changes.events
    assert (event.seq, event.run_id, event.run_seq, event.at) == (101, run.id, 5, NOW)
    assert (event.type, event.payload) == (
        EventType.STATE_CHANGED,
        '{"from":"running","to":"cancelling"}',
    )
    assert (moved.run_seq, moved.revision, moved.due_at) == (5, 10, 2000)
    assert world.seq == 101
    assert world.loaded_runs[run.id] is run  # What the guards are made of is what was locked.


@pytest.mark.proves("R2.3")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_what_has_ended_does_not_move_and_nothing_is_said(status: RunStatus) -> None:
    run = a_run(status=status, head_key=None, queue_rank=None, ready_seq=None, ended_at=NOW)
    world = a_world(run)
    assert [world.move(run, trigger) for trigger in Trigger] == [None] * len(Trigger)
    assert not world.has_changed


@pytest.mark.proves("I8")
@pytest.mark.parametrize("trigger", [Trigger.COMPLETE, Trigger.FAIL, Trigger.EXPIRE])
def test_an_end_frees_everything_that_was_held(trigger: Trigger) -> None:
    run = a_running(window=1, run_deadline_at=Instant(5), wake_at=Instant(6), due_at=Instant(5))
    world = a_world(run)
    world.lane_queues[MAIN].held_count = 1
    ended = world.move(run, trigger)
    assert ended is not None
    ended.check()
    assert (ended.ended_at, ended.head_key, ended.slot) == (NOW, None, None)
    assert (ended.token, ended.instance_id, ended.window) == (NO_TOKEN, None, 0)
    assert (ended.run_deadline_at, ended.wake_at, ended.due_at) == (None, None, None)
    assert world.lane_queues[MAIN].held_count == 0
    assert world.head_run(run.key) is None


@pytest.mark.proves("I9")
def test_an_end_hands_the_key_to_the_next_in_line() -> None:
    run, second, third = a_running(), behind(2), behind(3)
    world = a_world(run, waiting={"ann": [second, third]})
    world.move(run, Trigger.COMPLETE)
    heir = world.head_run(run.key)
    assert heir is not None
    heir.check()
    # Ready since the end of the one before it.
    assert (heir.id, heir.head_key, heir.waiting_key) == (second.id, "ann", None)
    assert (heir.queue_rank, heir.ready_seq) == (QueueRank.READY, world.seq)
    assert world.waiting_run_ids[run.key] == [third.id]


@pytest.mark.proves("I9")
def test_who_leaves_the_line_leaves_the_others_their_places() -> None:
    run, second, third = a_running(), behind(2), behind(3)
    world = a_world(run, waiting={"ann": [second, third]})
    world.move(second, Trigger.CANCEL)
    assert world.head_run(run.key) == run
    world.move(run, Trigger.COMPLETE)
    heir = world.head_run(run.key)
    assert heir is not None
    assert heir.id == third.id


@pytest.mark.proves("I9")
def test_the_queue_gives_resumed_runs_first_and_then_by_readiness() -> None:
    world = a_world()
    ranks = [(QueueRank.READY, 7), (QueueRank.RESUMED, 9), (QueueRank.READY, 3)]
    for number, (rank, ready_seq) in enumerate(ranks):
        run = a_run(key=f"key-{number}", queue_rank=int(rank), ready_seq=ready_seq)
        world.load_ready(run)
    popped = [world.pop_ready(MAIN) for _ in range(4)]
    assert [run and run.ready_seq for run in popped] == [9, 3, 7, None]


@pytest.mark.proves("I9")
def test_a_run_that_changed_since_it_was_queued_is_not_given_out() -> None:
    run = a_run()
    world = a_world(run)
    world.load_ready(run)
    world.load_ready(run)  # Two claims may both have found it.
    world.move(run, Trigger.CANCEL)
    assert world.pop_ready(MAIN) is None


@pytest.mark.proves("I5")
def test_the_figures_of_the_lane_follow_what_the_batch_does() -> None:
    run = a_run()
    world = a_world(run)
    world.lane_queues[MAIN].queued_count = 1
    moved = world.move(run, Trigger.CLAIM, slot=MAIN, token="t", instance_id="me", queue_rank=None)
    queue = world.lane_queues[MAIN]
    assert (queue.held_count, queue.queued_count) == (1, 0)
    assert moved is not None
    world.update(moved, slot=None)
    assert (queue.held_count, queue.queued_count) == (0, 0)


@pytest.mark.proves("R1.5")
def test_in_one_world_the_second_sees_the_first() -> None:
    world = a_world()
    first, second = a_submit(), a_submit()
    third = a_submit(on_conflict=OnConflict.ENQUEUE)
    assert first.decide(world) == Accepted(first.run_id, 101)
    assert second.decide(world) == Busy(first.run_id)
    assert third.decide(world) == Accepted(third.run_id, 102)
    assert [run.head_key for run in world.runs.values()] == ["ann", None]
    for run in world.runs.values():
        run.check()


@pytest.mark.proves("R1.5")
def test_a_refusal_changes_nothing() -> None:
    world = a_world(a_run())
    assert isinstance(a_submit().decide(world), Busy)
    assert not world.has_changed


@pytest.mark.proves("I13")
def test_events_are_numbered_from_where_the_stream_was() -> None:
    world = a_world()
    world.emit_global(EventType.LANE_CHANGED, "{}", lane=MAIN)
    run = world.emit(a_run(run_seq=7), EventType.LOG, '"line"')
    assert [(event.seq, event.run_seq) for event in world.changes.events] == [(101, None), (102, 8)]
    assert run.run_seq == 8


@pytest.mark.proves("R1.2")
def test_lanes_have_their_defaults_and_a_pause_is_a_limit_of_none() -> None:
    limits = {
        name: default_lane(LaneName(name)).capacity for name in ("main", "cron", "subagent", "x")
    }
    assert limits == {"main": 3, "cron": 1, "subagent": 1, "x": 1}
    assert LaneRow(MAIN, 3, is_paused=1).capacity == 0


@pytest.mark.proves("I7")
@pytest.mark.parametrize(
    "wrong",
    [
        {"ended_at": NOW},
        {"status": RunStatus.FAILED},
        {"head_key": None, "slot": MAIN},
        {"instance_id": "me"},
        {"token": "t"},
        {"queue_rank": QueueRank.BEHIND},
        {"waiting_key": "ann"},
        {"ready_seq": None},
        {"queue_rank": None},
    ],
    ids=str,
)
def test_a_run_in_a_wrong_state_is_our_mistake(wrong: dict[str, Any]) -> None:
    a_run().check()
    with pytest.raises(AssertionError):
        a_run(**wrong).check()


@pytest.mark.proves("R4.7")
def test_commands_say_what_they_need_and_needs_add_up() -> None:
    needs = RowsNeeded()
    run_id = RunId("one")
    needs.add_run(run_id, may_end=True)
    needs.add_run(run_id, may_wake=True)
    assert needs.run_ids == {run_id: True}
    assert list(needs.waking_ids) == [run_id]
