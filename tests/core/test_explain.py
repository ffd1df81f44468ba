"""Every state in which a run does not move has its gate, and says what would free it."""

import json
from typing import Any

import pytest

from headway.core.ids import InstanceId, LaneName, RunId, add_seconds
from headway.core.lane_row import LaneRow
from headway.core.run.explain import Explanation, Gate, Situation, explain
from headway.core.run.run import QueueRank, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.testing import a_run
from headway.testing.fake_clock import NOON

ALIVE = InstanceId("alive")
GONE = InstanceId("gone")
SOON = add_seconds(NOON, seconds=10)
EARLIER = add_seconds(NOON, seconds=-10)
LONG_AGO = add_seconds(NOON, seconds=-100)
HELD: dict[str, Any] = {
    "status": RunStatus.RUNNING,
    "queue_rank": None,
    "ready_seq": None,
    "slot": "main",
    "instance_id": ALIVE,
    "token": "token",
    "started_at": EARLIER,
}
PARKED = HELD | {"slot": None, "instance_id": None, "token": ""}
RESUMED = {"queue_rank": int(QueueRank.RESUMED), "ready_seq": 7}
BEHIND: dict[str, Any] = {
    "head_key": None,
    "waiting_key": "ann",
    "queue_rank": int(QueueRank.BEHIND),
    "ready_seq": None,
}


def explained(run: Run, *, lane: LaneRow | None = None, **seen: Any) -> Explanation:
    """Told at noon, in a lane of three slots that nobody holds, with one live instance."""
    run.check()
    situation = Situation(
        run=run,
        lane=lane or LaneRow(LaneName("main"), 3),
        head=seen.get("head"),
        ahead_count=seen.get("ahead_count", 0),
        slot_holder_ids=seen.get("slot_holders", ()),
        held_count=len(seen.get("slot_holders", ())),
        leases=seen.get("leases", {ALIVE: SOON, GONE: EARLIER}),
        ready_at=seen.get("ready_at"),
        moved_at=seen.get("moved_at"),
        child_ids=seen.get("children", ()),
        open_call_ids=seen.get("questions", ()),
        error=seen.get("error"),
        cancel=seen.get("cancel"),
    )
    found = explain(situation, NOON)
    assert (found.run_id, found.status) == (run.id, run.status)
    assert found.sentence.endswith(".")
    assert found.remedy.endswith(".")
    return found


@pytest.mark.proves("I7")
@pytest.mark.parametrize("status", sorted(TERMINAL), ids=str)
def test_what_is_over_says_how_it_ended(status: RunStatus) -> None:
    ended = a_run(status=status, head_key=None, queue_rank=None, ready_seq=None, ended_at=EARLIER)
    found = explained(ended)
    assert (found.gate, found.since, found.until) == (Gate.ENDED, EARLIER, None)
    assert found.sentence == f"The run is over: {status.value}."


ENDED: dict[str, Any] = {
    "head_key": None,
    "queue_rank": None,
    "ready_seq": None,
    "ended_at": EARLIER,
}
ERROR = '{"code":"error","message":"no disk"}'
CANCEL = '{"files":"keep","reason":"too late","by":"ann"}'


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize(
    ("status", "how"),
    [
        (RunStatus.FAILED, "failed (no disk)"),
        (RunStatus.CANCELED, "canceled (too late)"),
    ],
)
def test_what_is_over_says_why(status: RunStatus, how: str) -> None:
    found = explained(a_run(**ENDED, status=status), error=ERROR, cancel=CANCEL)
    assert found.sentence == f"The run is over: {how}."


@pytest.mark.proves("R1.12")
def test_who_canceled_without_a_reason_has_none() -> None:
    ended = a_run(**ENDED, status=RunStatus.CANCELED)
    found = explained(ended, cancel='{"files":"keep","reason":"","by":""}')
    assert found.sentence == "The run is over: canceled."


@pytest.mark.proves("S4")
def test_why_it_is_over_is_one_short_line_that_moves_no_cursor() -> None:
    error = json.dumps({"code": "error", "message": "no\x1b[2J\n disk" + " at all" * 100})
    found = explained(a_run(**ENDED, status=RunStatus.FAILED), error=error)
    assert found.sentence.startswith("The run is over: failed (no [2J disk at all at all")
    assert found.sentence.endswith("…).")
    assert len(found.sentence) < 250


@pytest.mark.proves("R1.12")
def test_a_run_behind_others_of_its_key_knows_its_position_and_who_goes_first() -> None:
    head = a_run(**HELD)
    found = explained(a_run(**BEHIND, queued_at=EARLIER), head=head, ahead_count=2)
    assert (found.gate, found.holder_ids, found.position) == (Gate.KEY, (head.id,), 3)
    assert found.since == EARLIER
    assert found.sentence == f"Key 'ann' is busy: run {head.id} (running) goes first."


@pytest.mark.proves("R1.12")
def test_a_run_that_waits_for_its_lane_knows_its_position_and_who_holds_the_slots() -> None:
    holders = (RunId("one"), RunId("two"))
    found = explained(
        a_run(queued_at=LONG_AGO),
        lane=LaneRow(LaneName("main"), 2),
        slot_holders=holders,
        ahead_count=1,
        ready_at=EARLIER,
    )
    assert (found.gate, found.holder_ids, found.position) == (Gate.LANE_FULL, holders, 2)
    # Not since it was accepted: until then its key was the gate.
    assert found.since == EARLIER
    assert found.sentence == "Lane 'main' is full: 2 of 2 slots are taken."


@pytest.mark.proves("I5")
def test_a_lane_whose_limit_was_lowered_below_what_is_held_is_full() -> None:
    holders = (RunId("one"), RunId("two"))
    found = explained(a_run(), lane=LaneRow(LaneName("main"), 1), slot_holders=holders)
    assert found.gate is Gate.LANE_FULL


@pytest.mark.proves("I5")
@pytest.mark.parametrize(
    ("lane", "gate"),
    [
        (LaneRow(LaneName("main"), 3, is_paused=1), Gate.LANE_PAUSED),
        (LaneRow(LaneName("main"), 0), Gate.LANE_LIMIT_ZERO),
    ],
)
@pytest.mark.parametrize("leases", [{}, {ALIVE: SOON}], ids=["nobody alive", "alive"])
def test_a_closed_lane_is_the_gate_whoever_lives(
    lane: LaneRow, gate: Gate, leases: dict[InstanceId, int]
) -> None:
    found = explained(a_run(), lane=lane, leases=leases)
    assert (found.gate, found.holder_ids) == (gate, ())
    assert "'main'" in found.sentence


@pytest.mark.parametrize("leases", [{}, {GONE: EARLIER}, {GONE: NOON}])
def test_without_a_live_instance_nobody_can_take_it(leases: dict[InstanceId, int]) -> None:
    found = explained(a_run(job="fetch"), leases=leases)
    assert found.gate is Gate.NO_LIVE_INSTANCE
    assert found.remedy == "Start a program that has registered job 'fetch'."


def test_with_room_in_its_lane_it_waits_for_an_instance_that_knows_its_job() -> None:
    found = explained(a_run(job="fetch", queue_deadline_at=SOON), slot_holders=(RunId("one"),))
    assert (found.gate, found.holder_ids, found.position) == (Gate.NOT_CLAIMED, (), 1)
    assert "registered job 'fetch'" in found.remedy
    assert found.until == SOON


@pytest.mark.parametrize(
    ("state", "history"),
    [
        (HELD | RESUMED | {"slot": None}, "Its wait is over and it wants a slot again."),
        (PARKED | RESUMED, "It was woken and wants a slot again."),
        (PARKED | RESUMED | {"death_count": 2}, "Its executor died (2 in a row, 3 are poison) and"),
        (
            PARKED | RESUMED | {"stop_count": 4},
            "A stop of its process ended its execution before it showed any progress (4 in a row,",
        ),
    ],
    ids=["waited", "woken", "orphaned", "stopped"],
)
def test_a_run_that_wants_a_slot_again_says_how_it_lost_the_one_it_had(
    state: dict[str, Any], history: str
) -> None:
    found = explained(
        a_run(**state),
        lane=LaneRow(LaneName("main"), 1),
        slot_holders=(RunId("one"),),
        ready_at=EARLIER,
    )
    assert (found.gate, found.since, found.position) == (Gate.LANE_FULL, EARLIER, 1)
    assert found.sentence.startswith(history)
    assert explained(a_run(**state)).gate is Gate.NOT_CLAIMED


def test_a_run_that_waited_gets_its_slot_from_its_own_instance() -> None:
    found = explained(a_run(**HELD | RESUMED | {"slot": None}))
    assert (found.gate, found.holder_ids) == (Gate.NOT_CLAIMED, (ALIVE,))
    assert "its instance takes a slot" in found.sentence


def test_a_running_run_names_its_instance_and_when_its_time_is_up() -> None:
    found = explained(a_run(**HELD, run_deadline_at=SOON), moved_at=EARLIER)
    assert (found.gate, found.holder_ids) == (Gate.RUNNING, (ALIVE,))
    assert (found.since, found.until) == (EARLIER, SOON)


@pytest.mark.proves("I8")
@pytest.mark.parametrize(
    "state", [HELD, HELD | {"slot": None}, HELD | RESUMED | {"slot": None}], ids=str
)
@pytest.mark.parametrize(
    ("leases", "since"), [({GONE: EARLIER, ALIVE: SOON}, EARLIER), ({ALIVE: SOON}, None)]
)
def test_a_run_of_an_instance_that_is_gone_awaits_the_sweep(
    state: dict[str, Any], leases: dict[InstanceId, int], since: int | None
) -> None:
    found = explained(a_run(**state | {"instance_id": GONE}), leases=leases)
    assert (found.gate, found.holder_ids, found.since) == (Gate.LEASE_EXPIRED, (GONE,), since)


def test_a_lease_is_in_force_until_its_last_moment() -> None:
    run = a_run(**HELD)
    assert explained(run, leases={ALIVE: add_seconds(NOON, seconds=0.000001)}).gate is Gate.RUNNING
    assert explained(run, leases={ALIVE: NOON}).gate is Gate.LEASE_EXPIRED


def test_a_run_that_waits_without_a_slot_is_not_in_the_queue() -> None:
    found = explained(a_run(**HELD | {"slot": None}), moved_at=EARLIER)
    assert (found.gate, found.holder_ids) == (Gate.WAITING, (ALIVE,))
    assert (found.position, found.since) == (None, EARLIER)
    # Who holds it is told apart, and the time of a sleep is not in the database.
    assert ALIVE not in found.sentence
    assert "sleeps" in found.sentence


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize(
    ("questions", "awaited"),
    [
        (["q1"], "for an answer to 'q1'."),
        (["q1", "q2"], "for an answer to 'q1', the first of its 2 open questions."),
    ],
)
def test_a_run_that_waits_for_a_person_names_the_question(
    questions: list[str], awaited: str
) -> None:
    run = a_run(**HELD | {"slot": None})
    found = explained(run, questions=questions)
    assert (found.gate, found.holder_ids) == (Gate.WAITING, (ALIVE,))
    assert found.sentence == f"Its job waits, without a slot, {awaited}"
    assert f"headway run resume {run.id}" in found.remedy


@pytest.mark.proves("R1.12")
def test_a_run_that_waits_for_a_child_and_a_person_names_both() -> None:
    run = a_run(**HELD | {"slot": None})
    found = explained(run, children=[RunId("kid")], questions=["q1"])
    assert (found.gate, found.holder_ids) == (Gate.CHILD, ("kid",))
    waited = "for an answer to 'q1' and for child run kid"
    assert found.sentence == f"Its job waits, without a slot, {waited}."


@pytest.mark.proves("I18")
def test_a_run_parked_until_a_time_tells_it() -> None:
    found = explained(a_run(**PARKED, wake_at=SOON), moved_at=EARLIER)
    assert (found.gate, found.since, found.until) == (Gate.NOT_DUE, EARLIER, SOON)
    assert "until its time comes" in found.sentence


@pytest.mark.proves("I18")
def test_a_run_whose_time_has_come_awaits_the_sweep() -> None:
    found = explained(a_run(**PARKED, wake_at=NOON))
    assert found.gate is Gate.NOT_DUE
    assert "its time has come" in found.sentence
    assert "sweep" in found.remedy


def test_a_run_parked_without_a_time_waits_for_somebody() -> None:
    found = explained(a_run(**PARKED), moved_at=EARLIER)
    assert (found.gate, found.since, found.until) == (Gate.INBOX, EARLIER, None)


@pytest.mark.proves("I11")
def test_a_run_that_is_cancelling_tells_until_when() -> None:
    cancelling = HELD | {"status": RunStatus.CANCELLING, "cancel_deadline_at": SOON}
    found = explained(a_run(**cancelling), moved_at=EARLIER)
    assert (found.gate, found.holder_ids, found.until) == (Gate.CANCELLING, (ALIVE,), SOON)
    assert (found.since, found.sentence) == (
        EARLIER,
        "It was asked to end, and its job is cleaning up.",
    )


@pytest.mark.proves("I11")
@pytest.mark.parametrize(
    "late", [{"cancel_deadline_at": NOON}, {"instance_id": GONE, "cancel_deadline_at": SOON}]
)
def test_a_run_that_did_not_end_in_time_awaits_the_sweep(late: dict[str, Any]) -> None:
    found = explained(a_run(**HELD | {"status": RunStatus.CANCELLING} | late))
    assert found.gate is Gate.CANCELLING
    assert "did not do so in time" in found.sentence
    assert "sweep" in found.remedy
