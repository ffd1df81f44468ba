"""A BatchState holds the locked rows of a batch and applies its commands one after another."""

from typing import Any

import pytest

from headway.core.batch_state import BatchState, LaneQueue
from headway.core.command.protocol import RowsNeeded
from headway.core.command.run.submit import Accepted, Busy
from headway.core.event_payloads import KeyChanged, Waiting
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


def a_batch(*runs: Run, waiting: dict[str, list[Run]] | None = None, limit: int = 3) -> BatchState:
    batch = BatchState(now=NOW, seq=100)
    batch.lane_rows[MAIN] = LaneRow(MAIN, limit)
    batch.lane_queues[MAIN] = LaneQueue(LaneRow(MAIN, limit))
    for run in runs:
        batch.load_run(run)
        batch.waiting_run_ids.setdefault(run.key, [])
    for key, behind in (waiting or {}).items():
        for run in behind:
            batch.load_run(run)
        batch.waiting_run_ids[Key(key)] = [run.id for run in behind]
    return batch


def a_running(**columns: Any) -> Run:
    defaults = {"status": RunStatus.RUNNING, "slot": MAIN, "token": "t", "instance_id": "me"}
    return a_run(**{**defaults, "queue_rank": None, "ready_seq": None, **columns})


def behind(seq: int) -> Run:
    return a_run(
        seq=seq, head_key=None, waiting_key="ann", queue_rank=QueueRank.BEHIND, ready_seq=None
    )


@pytest.mark.proves("I2")
def test_fence_accepts_only_the_current_claim() -> None:
    run = a_running(token="new")
    batch = a_batch(run)
    assert batch.held_run(Claim(run.id, "new")) is run
    assert batch.held_run(Claim(run.id, "old")) is None
    assert batch.held_run(Claim(run.id, NO_TOKEN)) is None
    assert batch.held_run(Claim(RunId("other"), "new")) is None


@pytest.mark.proves("I2")
def test_empty_token_is_not_a_claim() -> None:
    run = a_run()
    assert a_batch(run).held_run(Claim(run.id, NO_TOKEN)) is None


@pytest.mark.proves("R2.7")
def test_transition_has_exactly_one_event() -> None:
    run = a_running(run_seq=4, revision=9)
    batch = a_batch(run)
    moved = batch.move(run, Trigger.CANCEL, cancel_deadline_at=Instant(2000))
    assert moved is not None
    (event,) = batch.changes.events
    assert (event.seq, event.run_id, event.run_seq, event.at) == (101, run.id, 5, NOW)
    assert (event.type, event.payload) == (
        EventType.STATE_CHANGED,
        '{"from":"running","to":"cancelling"}',
    )
    assert (moved.run_seq, moved.revision, moved.due_at) == (5, 10, 2000)
    assert batch.seq == 101
    assert batch.loaded_runs[run.id] is run  # The guards compare with the locked row.


@pytest.mark.proves("R2.3")
@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_ended_run_has_no_transition_and_emits_no_event(status: RunStatus) -> None:
    run = a_run(status=status, head_key=None, queue_rank=None, ready_seq=None, ended_at=NOW)
    batch = a_batch(run)
    assert [batch.move(run, trigger) for trigger in Trigger] == [None] * len(Trigger)
    assert not batch.finalize()


@pytest.mark.proves("I8")
@pytest.mark.parametrize("trigger", [Trigger.COMPLETE, Trigger.FAIL, Trigger.EXPIRE])
def test_run_that_ends_releases_its_key_slot_claim_and_deadlines(trigger: Trigger) -> None:
    run = a_running(window=1, run_deadline_at=Instant(5), wake_at=Instant(6), due_at=Instant(5))
    batch = a_batch(run)
    batch.lane_queues[MAIN].held_count = 1
    ended = batch.move(run, trigger)
    assert ended is not None
    ended.check()
    assert (ended.ended_at, ended.head_key, ended.slot) == (NOW, None, None)
    assert (ended.token, ended.instance_id, ended.window) == (NO_TOKEN, None, 0)
    assert (ended.run_deadline_at, ended.wake_at, ended.due_at) == (None, None, None)
    assert batch.lane_queues[MAIN].held_count == 0
    assert batch.head_run(run.key) is None


@pytest.mark.proves("I9")
def test_key_of_an_ended_run_passes_to_the_next_run() -> None:
    run, second, third = a_running(), behind(2), behind(3)
    batch = a_batch(run, waiting={"ann": [second, third]})
    batch.move(run, Trigger.COMPLETE)
    heir = batch.head_run(run.key)
    assert heir is not None
    heir.check()
    # Ready since the end of the run before it.
    assert (heir.id, heir.head_key, heir.waiting_key) == (second.id, "ann", None)
    assert (heir.queue_rank, heir.ready_seq) == (QueueRank.READY, batch.seq)
    assert batch.waiting_run_ids[run.key] == [third.id]


@pytest.mark.proves("I9")
def test_runs_of_a_key_keep_their_order_when_one_of_them_leaves_the_queue() -> None:
    run, second, third = a_running(), behind(2), behind(3)
    batch = a_batch(run, waiting={"ann": [second, third]})
    batch.move(second, Trigger.CANCEL)
    assert batch.head_run(run.key) == run
    batch.move(run, Trigger.COMPLETE)
    heir = batch.head_run(run.key)
    assert heir is not None
    assert heir.id == third.id


@pytest.mark.proves("I9")
def test_queue_returns_resumed_runs_first_and_then_runs_in_order_of_readiness() -> None:
    batch = a_batch()
    ranks = [(QueueRank.READY, 7), (QueueRank.RESUMED, 9), (QueueRank.READY, 3)]
    for number, (rank, ready_seq) in enumerate(ranks):
        run = a_run(key=f"key-{number}", queue_rank=int(rank), ready_seq=ready_seq)
        batch.load_ready(run)
    popped = [batch.pop_ready(batch.lane_queues[MAIN]) for _ in range(4)]
    assert [run and run.ready_seq for run in popped] == [9, 3, 7, None]


@pytest.mark.proves("I9")
def test_run_that_changed_since_it_was_queued_is_not_claimed() -> None:
    run = a_run()
    batch = a_batch(run)
    batch.load_ready(run)
    batch.load_ready(run)  # Two claims may both have found it.
    batch.move(run, Trigger.CANCEL)
    assert batch.pop_ready(batch.lane_queues[MAIN]) is None


@pytest.mark.proves("I5")
def test_counts_of_a_lane_are_updated_within_the_batch() -> None:
    run = a_run()
    batch = a_batch(run)
    batch.lane_queues[MAIN].queued_count = 1
    moved = batch.move(run, Trigger.CLAIM, slot=MAIN, token="t", instance_id="me", queue_rank=None)
    queue = batch.lane_queues[MAIN]
    assert (queue.held_count, queue.queued_count) == (1, 0)
    assert moved is not None
    batch.update(moved, slot=None)
    assert (queue.held_count, queue.queued_count) == (0, 0)


@pytest.mark.proves("R1.5")
def test_second_command_of_a_batch_sees_the_changes_of_the_first() -> None:
    batch = a_batch()
    first, second = a_submit(), a_submit()
    third = a_submit(on_conflict=OnConflict.ENQUEUE)
    assert first.decide(batch) == Accepted(first.run_id, 101)
    assert second.decide(batch) == Busy(first.run_id)
    assert third.decide(batch) == Accepted(third.run_id, 102)
    assert [run.head_key for run in batch.runs.values()] == ["ann", None]
    for run in batch.runs.values():
        run.check()


@pytest.mark.proves("R1.5")
def test_refused_submission_changes_no_rows() -> None:
    batch = a_batch(a_run())
    assert isinstance(a_submit().decide(batch), Busy)
    assert not batch.finalize()


@pytest.mark.proves("I13")
def test_events_are_numbered_from_the_position_of_the_stream() -> None:
    batch = a_batch()
    batch.emit_global(KeyChanged(1, ""))
    run = batch.emit(a_run(run_seq=7), Waiting())
    assert [(event.seq, event.run_seq) for event in batch.changes.events] == [(101, None), (102, 8)]
    assert run.run_seq == 8


@pytest.mark.proves("R1.2")
def test_lanes_have_default_limits_and_a_pause_is_a_limit_of_zero() -> None:
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
def test_run_in_an_invalid_state_is_an_internal_error(wrong: dict[str, Any]) -> None:
    a_run().check()
    with pytest.raises(AssertionError):
        a_run(**wrong).check()


@pytest.mark.proves("R4.7")
def test_rows_needed_by_several_commands_are_combined() -> None:
    rows = RowsNeeded()
    run_id = RunId("one")
    rows.add_run(run_id, may_end=True)
    rows.add_run(run_id, may_wake=True)
    assert rows.run_ids == {run_id: True}
    assert list(rows.waking_ids) == [run_id]
