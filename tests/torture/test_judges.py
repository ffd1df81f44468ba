"""The checks of the torture of engines detect planted violations."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from headway.core.event_payloads import encode_transition
from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.status import RunStatus
from tests.torture import record
from tests.torture.at_work import AtWork, Pause
from tests.torture.authority import Authority
from tests.torture.engine import STEPPED
from tests.torture.ledger import BEGIN, END, STEP, WAIT, Line
from tests.torture.replay import Findings
from tests.torture.steering import compare

HEARTBEAT: Final = 100
PAUSE: Final = Pause(pid=1, from_ns=1_000_000, to_ns=3_000_000)
LANE: Final = LaneName("quick")


def line(word: str, at_us: int, *, run: str = "r1", generation: int = 1, pid: int = 1) -> Line:
    return Line(word, RunId(run), Key("ann"), generation, LANE, at_us * 1_000, pid)


def event(kind: str, at_us: int, payload: str = "{}") -> Event:
    return Event(at_us, RunId("r1"), 1, Key("ann"), LANE, kind, payload, Instant(at_us))


def at_work(*lines: Line, is_paused: bool = True) -> AtWork:
    return AtWork(lines, [PAUSE] if is_paused else [], HEARTBEAT * 1_000, epoch_ns=0)


def authority(*events: Event) -> Authority:
    """Return the history of a run: claimed at 100, taken over at 2,000, claimed again at 2,100."""
    history = Authority(Findings())
    for entry in (
        event(EventType.STATE_CHANGED, 50, encode_transition(None, RunStatus.QUEUED)),
        event(EventType.STATE_CHANGED, 100, encode_transition(RunStatus.QUEUED, RunStatus.RUNNING)),
        event(EventType.TAKEN_OVER, 2_000),
        event(EventType.RESUMED, 2_100, '{"generation":2}'),
        *events,
    ):
        history.take(entry)
    return history


@pytest.mark.proves("I4")
def test_work_after_a_pause_is_excused_for_one_heartbeat() -> None:
    findings = Findings()
    began, other = line(BEGIN, 200), line(BEGIN, 2_200, run="r2", pid=2)
    in_time = (began, other, line(END, 3_050), line(END, 3_200, run="r2", pid=2))
    at_work(*in_time).check_crowding({LANE: 1}, findings)
    assert findings.two_at_work == 0
    at_work(*in_time, is_paused=False).check_crowding({LANE: 2}, findings)
    assert findings.two_at_work == 1
    late = (began, other, line(STEP, 3_050), line(END, 3_150), line(END, 3_200, run="r2", pid=2))
    at_work(*late).check_crowding({LANE: 1}, findings)
    assert findings.two_at_work == 3  # A second run of the key, and of the lane.


@pytest.mark.proves("R4.13")
def test_late_work_is_measured_from_the_end_of_the_pause() -> None:
    findings = Findings()
    lines = (line(BEGIN, 200), line(STEP, 3_040), line(STEP, 3_101))
    at_work(*lines).check_claims(authority(), findings)
    assert (findings.ran_on, findings.unclaimed) == (1, 0)
    assert at_work(*lines).count_overtaken(authority()) == 1
    findings = Findings()
    at_work(line(STEP, 2_099), line(STEP, 2_101), is_paused=False).check_claims(
        authority(), findings
    )
    assert findings.ran_on == 1


@pytest.mark.proves("I5")
def test_work_before_the_claim_or_without_a_slot_is_detected() -> None:
    history = authority(
        event(EventType.WAITING, 2_500), event(EventType.RESUMED, 2_900, '{"generation":2}')
    )
    findings = Findings()
    good = (line(STEP, 2_400, generation=2), line(END, 2_600, generation=2))
    at_work(*good, line(STEP, 2_950, generation=2)).check_claims(history, findings)
    assert findings.unclaimed == 0
    bad = (line(BEGIN, 2_050, generation=2), line(WAIT, 2_600, generation=2))
    at_work(*bad, line(BEGIN, 500, generation=3)).check_claims(history, findings)
    assert findings.unclaimed == 3


@pytest.mark.proves("I2")
@pytest.mark.parametrize(("generation", "count"), [(1, 1), (2, 0), (3, 1)])
def test_a_write_with_a_stale_claim_is_detected(generation: int, count: int) -> None:
    step = event(STEPPED, 2_300, json.dumps({"generation": generation}))
    assert authority(step).findings.stale_words == count


@pytest.mark.proves("I4")
def test_a_second_claim_of_a_key_is_detected() -> None:
    history = authority(event(EventType.RESUMED, 2_400, '{"generation":3}'))
    assert history.findings.two_of_a_key == 1


def test_recording_one_column_does_not_change_other_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RECORD", tmp_path / "torture.md")
    order = ["claims on sqlite", "kills on sqlite"]
    record.record("kills on sqlite", {"runs": "7"}, order=order)
    record.record("claims on sqlite", {"runs": "1,000", "lost": "0"}, order=order)
    record.record("kills on sqlite", {"runs": "8", "lost": "0"}, order=order)
    table = [row for row in record.RECORD.read_text().splitlines() if row.startswith("|")]
    assert table[0] == "|  | claims on sqlite | kills on sqlite |"
    assert table[3:] == ["| runs | 1,000 | 8 |", "| lost | 0 | 0 |"]


@pytest.mark.proves("I3")
@pytest.mark.parametrize(
    ("received", "found"),
    [
        (["a", "b", "c"], Findings()),
        (["a", "c"], Findings(lost=1)),
        ([], Findings(lost=3)),
        (["a", "b", "b", "c"], Findings(executed_twice=1)),
        (["b", "a", "c"], Findings(out_of_order=1)),
        (
            ["a", "b", {"approved": False}],
            Findings(lost=1, faults=["a job received {'approved': False}, which was not sent"]),
        ),
    ],
    ids=["all is well", "one is lost", "all are lost", "twice", "out of order", "a stranger"],
)
def test_received_messages_are_compared_with_accepted_ones(
    received: list[Any], found: Findings
) -> None:
    findings = Findings()
    compare(["a", "b", "c"], received, findings)
    assert findings == found
