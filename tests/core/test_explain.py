"""Every state in which a run does not move has its gate, and a remedy."""

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


def explain_at_noon(
    run: Run, *, lane: LaneRow | None = None, **situation_fields: Any
) -> Explanation:
    """Explain a run at noon, in a lane with three free slots and one live instance."""
    run.check()
    situation = Situation(
        run=run,
        lane=lane or LaneRow(LaneName("main"), 3),
        head=situation_fields.get("head"),
        ahead_count=situation_fields.get("ahead_count", 0),
        slot_holder_ids=situation_fields.get("slot_holders", ()),
        held_count=len(situation_fields.get("slot_holders", ())),
        leases=situation_fields.get("leases", {ALIVE: SOON, GONE: EARLIER}),
        ready_at=situation_fields.get("ready_at"),
        moved_at=situation_fields.get("moved_at"),
        child_ids=situation_fields.get("children", ()),
        open_call_ids=situation_fields.get("questions", ()),
        error=situation_fields.get("error"),
        cancel=situation_fields.get("cancel"),
    )
    explanation = explain(situation, NOON)
    assert (explanation.run_id, explanation.status) == (run.id, run.status)
    assert explanation.sentence.endswith(".")
    assert explanation.remedy.endswith(".")
    return explanation


@pytest.mark.proves("I7")
@pytest.mark.parametrize("status", sorted(TERMINAL), ids=str)
def test_ended_run_is_explained_by_its_status(status: RunStatus) -> None:
    ended = a_run(status=status, head_key=None, queue_rank=None, ready_seq=None, ended_at=EARLIER)
    explanation = explain_at_noon(ended)
    assert (explanation.gate, explanation.since, explanation.until) == (Gate.ENDED, EARLIER, None)
    assert explanation.sentence == f"The run has ended: {status.value}."


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
def test_ended_run_is_explained_by_its_reason(status: RunStatus, how: str) -> None:
    explanation = explain_at_noon(a_run(**ENDED, status=status), error=ERROR, cancel=CANCEL)
    assert explanation.sentence == f"The run has ended: {how}."


@pytest.mark.proves("R1.12")
def test_explanation_of_a_cancel_without_a_reason_names_no_reason() -> None:
    ended = a_run(**ENDED, status=RunStatus.CANCELED)
    explanation = explain_at_noon(ended, cancel='{"files":"keep","reason":"","by":""}')
    assert explanation.sentence == "The run has ended: canceled."


@pytest.mark.proves("S4")
def test_reason_for_an_ended_run_is_one_short_line_without_control_characters() -> None:
    error = json.dumps({"code": "error", "message": "no\x1b[2J\n disk" + " at all" * 100})
    explanation = explain_at_noon(a_run(**ENDED, status=RunStatus.FAILED), error=error)
    assert explanation.sentence.startswith("The run has ended: failed (no [2J disk at all at all")
    assert explanation.sentence.endswith("…).")
    assert len(explanation.sentence) < 250


@pytest.mark.proves("R1.12")
def test_run_behind_others_of_its_key_has_its_position_and_the_run_ahead() -> None:
    head = a_run(**HELD)
    explanation = explain_at_noon(a_run(**BEHIND, queued_at=EARLIER), head=head, ahead_count=2)
    assert (explanation.gate, explanation.holder_ids, explanation.position) == (
        Gate.KEY,
        (head.id,),
        3,
    )
    assert explanation.since == EARLIER
    assert explanation.sentence == f"Key 'ann' is busy: run {head.id} (running) goes first."


@pytest.mark.proves("R1.12")
def test_run_that_waits_for_its_lane_has_its_position_and_the_holders() -> None:
    holders = (RunId("one"), RunId("two"))
    explanation = explain_at_noon(
        a_run(queued_at=LONG_AGO),
        lane=LaneRow(LaneName("main"), 2),
        slot_holders=holders,
        ahead_count=1,
        ready_at=EARLIER,
    )
    assert (explanation.gate, explanation.holder_ids, explanation.position) == (
        Gate.LANE_FULL,
        holders,
        2,
    )
    # Not since the submission: until then the key was the gate.
    assert explanation.since == EARLIER
    assert explanation.sentence == "Lane 'main' is full: 2 of 2 slots are taken."


@pytest.mark.proves("I5")
def test_lane_whose_limit_is_below_its_held_slots_is_full() -> None:
    holders = (RunId("one"), RunId("two"))
    explanation = explain_at_noon(a_run(), lane=LaneRow(LaneName("main"), 1), slot_holders=holders)
    assert explanation.gate is Gate.LANE_FULL


@pytest.mark.proves("I5")
@pytest.mark.parametrize(
    ("lane", "gate", "command"),
    [
        (LaneRow(LaneName("main"), 3, is_paused=1), Gate.LANE_PAUSED, "lane resume main"),
        (LaneRow(LaneName("main"), 0), Gate.LANE_LIMIT_ZERO, "lane set main --max-concurrent 1"),
    ],
)
@pytest.mark.parametrize("leases", [{}, {ALIVE: SOON}], ids=["nobody alive", "alive"])
def test_paused_lane_is_reported_as_the_reason_even_without_live_instances(
    lane: LaneRow, gate: Gate, command: str, leases: dict[InstanceId, int]
) -> None:
    explanation = explain_at_noon(a_run(), lane=lane, leases=leases)
    assert (explanation.gate, explanation.holder_ids) == (gate, ())
    assert "'main'" in explanation.sentence
    assert f"`headway {command}`" in explanation.remedy


def test_lane_is_quoted_for_the_shell_in_the_remedy() -> None:
    lane = LaneRow(LaneName("big files; ls"), 3, is_paused=1)
    assert "`headway lane resume 'big files; ls'`" in explain_at_noon(a_run(), lane=lane).remedy


@pytest.mark.parametrize("leases", [{}, {GONE: EARLIER}, {GONE: NOON}])
def test_run_without_a_live_instance_waits_for_a_program_with_its_job(
    leases: dict[InstanceId, int],
) -> None:
    explanation = explain_at_noon(a_run(job="fetch"), leases=leases)
    assert explanation.gate is Gate.NO_LIVE_INSTANCE
    assert explanation.remedy.startswith(
        "Start a program that has registered job 'fetch', for example"
    )


def test_run_with_a_free_slot_waits_for_an_instance_with_its_job() -> None:
    explanation = explain_at_noon(
        a_run(job="fetch", queue_deadline_at=SOON), slot_holders=(RunId("one"),)
    )
    assert (explanation.gate, explanation.holder_ids, explanation.position) == (
        Gate.NOT_CLAIMED,
        (),
        1,
    )
    assert "registered job 'fetch'" in explanation.remedy
    assert explanation.until == SOON


@pytest.mark.parametrize(
    ("state", "history"),
    [
        (HELD | RESUMED | {"slot": None}, "Its wait is over and it needs a slot again."),
        (PARKED | RESUMED, "It was woken and needs a slot again."),
        (PARKED | RESUMED | {"death_count": 2}, "Its process was lost (2 in a row without"),
        (
            PARKED | RESUMED | {"stop_count": 4},
            "Its process was stopped (4 in a row without progress;",
        ),
    ],
    ids=["waited", "woken", "orphaned", "stopped"],
)
def test_resumed_run_is_explained_by_how_it_lost_its_slot(
    state: dict[str, Any], history: str
) -> None:
    explanation = explain_at_noon(
        a_run(**state),
        lane=LaneRow(LaneName("main"), 1),
        slot_holders=(RunId("one"),),
        ready_at=EARLIER,
    )
    assert (explanation.gate, explanation.since, explanation.position) == (
        Gate.LANE_FULL,
        EARLIER,
        1,
    )
    assert explanation.sentence.startswith(history)
    assert explain_at_noon(a_run(**state)).gate is Gate.NOT_CLAIMED


def test_run_whose_wait_is_over_needs_its_own_instance_to_take_a_slot() -> None:
    explanation = explain_at_noon(a_run(**HELD | RESUMED | {"slot": None}))
    assert (explanation.gate, explanation.holder_ids) == (Gate.NOT_CLAIMED, (ALIVE,))
    assert "its instance takes a slot" in explanation.sentence


def test_running_run_names_its_instance_and_its_deadline() -> None:
    explanation = explain_at_noon(a_run(**HELD, run_deadline_at=SOON), moved_at=EARLIER)
    assert (explanation.gate, explanation.holder_ids) == (Gate.RUNNING, (ALIVE,))
    assert (explanation.since, explanation.until) == (EARLIER, SOON)


@pytest.mark.proves("I8")
@pytest.mark.parametrize(
    "state", [HELD, HELD | {"slot": None}, HELD | RESUMED | {"slot": None}], ids=str
)
@pytest.mark.parametrize(
    ("leases", "since"), [({GONE: EARLIER, ALIVE: SOON}, EARLIER), ({ALIVE: SOON}, None)]
)
def test_run_of_a_dead_instance_awaits_the_sweep(
    state: dict[str, Any], leases: dict[InstanceId, int], since: int | None
) -> None:
    explanation = explain_at_noon(a_run(**state | {"instance_id": GONE}), leases=leases)
    assert (explanation.gate, explanation.holder_ids, explanation.since) == (
        Gate.LEASE_EXPIRED,
        (GONE,),
        since,
    )


def test_lease_is_valid_until_its_last_moment() -> None:
    run = a_run(**HELD)
    assert (
        explain_at_noon(run, leases={ALIVE: add_seconds(NOON, seconds=0.000001)}).gate
        is Gate.RUNNING
    )
    assert explain_at_noon(run, leases={ALIVE: NOON}).gate is Gate.LEASE_EXPIRED


def test_run_that_waits_without_a_slot_is_not_queued() -> None:
    run = a_run(**HELD | {"slot": None, "run_deadline_at": SOON})
    explanation = explain_at_noon(run, moved_at=EARLIER)
    assert (explanation.gate, explanation.holder_ids) == (Gate.WAITING, (ALIVE,))
    assert explanation.until is None  # Its deadline is not when it continues.
    assert (explanation.position, explanation.since) == (None, EARLIER)
    # The holder is a field of its own, and the end of a sleep is not in the database.
    assert ALIVE not in explanation.sentence
    assert "sleeps" in explanation.sentence


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize(
    ("questions", "awaited", "options"),
    [
        (["q1"], "for an answer to 'q1'.", "--approve"),
        (
            ["q1", "q2"],
            "for an answer to 'q1', the first of its 2 open questions.",
            "--call-id q1 --approve",
        ),
    ],
)
def test_run_that_waits_for_a_person_names_the_question(
    questions: list[str], awaited: str, options: str
) -> None:
    run = a_run(**HELD | {"slot": None})
    explanation = explain_at_noon(run, questions=questions)
    assert (explanation.gate, explanation.holder_ids) == (Gate.WAITING, (ALIVE,))
    assert explanation.sentence == f"Its job waits without a slot {awaited}"
    assert f"`headway run resume {run.id} {options}`" in explanation.remedy
    assert "`--deny` or `name=value`" in explanation.remedy


@pytest.mark.proves("R1.12")
def test_run_that_waits_for_a_child_and_a_person_names_both() -> None:
    run = a_run(**HELD | {"slot": None})
    explanation = explain_at_noon(run, children=[RunId("kid")], questions=["q1"])
    assert (explanation.gate, explanation.holder_ids) == (Gate.CHILD, ("kid",))
    waited = "for an answer to 'q1' and for child run kid"
    assert explanation.sentence == f"Its job waits without a slot {waited}."


@pytest.mark.proves("I18")
def test_run_parked_until_a_time_shows_that_time() -> None:
    explanation = explain_at_noon(a_run(**PARKED, wake_at=SOON), moved_at=EARLIER)
    assert (explanation.gate, explanation.since, explanation.until) == (Gate.NOT_DUE, EARLIER, SOON)
    assert "until its wake time" in explanation.sentence


@pytest.mark.proves("I18")
def test_run_whose_wake_time_has_come_awaits_the_sweep() -> None:
    explanation = explain_at_noon(a_run(**PARKED, wake_at=NOON))
    assert explanation.gate is Gate.NOT_DUE
    assert "its wake time has passed" in explanation.sentence
    assert "sweep" in explanation.remedy


def test_run_parked_without_a_time_waits_for_a_person() -> None:
    explanation = explain_at_noon(a_run(**PARKED), moved_at=EARLIER)
    assert (explanation.gate, explanation.since, explanation.until) == (Gate.INBOX, EARLIER, None)


@pytest.mark.proves("I11")
def test_cancelling_run_shows_its_deadline() -> None:
    cancelling = HELD | {"status": RunStatus.CANCELLING, "cancel_deadline_at": SOON}
    explanation = explain_at_noon(a_run(**cancelling), moved_at=EARLIER)
    assert (explanation.gate, explanation.holder_ids, explanation.until) == (
        Gate.CANCELLING,
        (ALIVE,),
        SOON,
    )
    assert (explanation.since, explanation.sentence) == (
        EARLIER,
        "It is cancelling, and its job is cleaning up.",
    )


@pytest.mark.proves("I11")
@pytest.mark.parametrize(
    "late", [{"cancel_deadline_at": NOON}, {"instance_id": GONE, "cancel_deadline_at": SOON}]
)
def test_run_that_did_not_end_in_time_awaits_the_sweep(late: dict[str, Any]) -> None:
    explanation = explain_at_noon(a_run(**HELD | {"status": RunStatus.CANCELLING} | late))
    assert explanation.gate is Gate.CANCELLING
    assert "did not end in time" in explanation.sentence
    assert "sweep" in explanation.remedy
