"""Whoever judges the torture of engines must be able to find somebody guilty."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from headway.core.ids import Instant, Key, LaneName, RunId
from headway.core.run.events import Event, EventType, state_payload
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
    """The run is claimed at 100, taken over at 2,000 and claimed again at 2,100."""
    told = Authority(Findings())
    for one in (
        event(EventType.STATE_CHANGED, 50, state_payload(None, RunStatus.QUEUED)),
        event(EventType.STATE_CHANGED, 100, state_payload(RunStatus.QUEUED, RunStatus.RUNNING)),
        event(EventType.TAKEN_OVER, 2_000),
        event(EventType.RESUMED, 2_100, '{"generation":2}'),
        *events,
    ):
        told.take(one)
    return told


@pytest.mark.proves("I4")
def test_one_that_ran_on_while_its_process_slept_is_excused_for_a_heartbeat() -> None:
    findings = Findings()
    began, other = line(BEGIN, 200), line(BEGIN, 2_200, run="r2", pid=2)
    in_time = (began, other, line(END, 3_050), line(END, 3_200, run="r2", pid=2))
    at_work(*in_time).check_crowding({LANE: 1}, findings)
    assert findings.two_at_work == 0
    at_work(*in_time, is_paused=False).check_crowding({LANE: 2}, findings)
    assert findings.two_at_work == 1
    late = (began, other, line(STEP, 3_050), line(END, 3_150), line(END, 3_200, run="r2", pid=2))
    at_work(*late).check_crowding({LANE: 1}, findings)
    assert findings.two_at_work == 3  # A second one of the key, and of the lane.


@pytest.mark.proves("R4.13")
def test_it_is_measured_from_when_it_woke() -> None:
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
def test_work_before_the_claim_or_without_a_slot_is_found() -> None:
    told = authority(
        event(EventType.WAITING, 2_500), event(EventType.RESUMED, 2_900, '{"generation":2}')
    )
    findings = Findings()
    good = (line(STEP, 2_400, generation=2), line(END, 2_600, generation=2))
    at_work(*good, line(STEP, 2_950, generation=2)).check_claims(told, findings)
    assert findings.unclaimed == 0
    bad = (line(BEGIN, 2_050, generation=2), line(WAIT, 2_600, generation=2))
    at_work(*bad, line(BEGIN, 500, generation=3)).check_claims(told, findings)
    assert findings.unclaimed == 3


@pytest.mark.proves("I2")
@pytest.mark.parametrize(("generation", "count"), [(1, 1), (2, 0), (3, 1)])
def test_a_word_from_any_claim_but_the_one_in_force_is_found(generation: int, count: int) -> None:
    said = event(STEPPED, 2_300, json.dumps({"generation": generation}))
    assert authority(said).findings.stale_words == count


@pytest.mark.proves("I4")
def test_a_claim_beside_another_is_found() -> None:
    told = authority(event(EventType.RESUMED, 2_400, '{"generation":3}'))
    assert told.findings.two_of_a_key == 1


def test_a_record_keeps_the_columns_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RECORD", tmp_path / "torture.md")
    order = ["claims on sqlite", "kills on sqlite"]
    record.record("kills on sqlite", {"runs": "7"}, order=order)
    record.record("claims on sqlite", {"runs": "1,000", "lost": "0"}, order=order)
    record.record("kills on sqlite", {"runs": "8", "lost": "0"}, order=order)
    table = [one for one in record.RECORD.read_text().splitlines() if one.startswith("|")]
    assert table[0] == "|  | claims on sqlite | kills on sqlite |"
    assert table[3:] == ["| runs | 1,000 | 8 |", "| lost | 0 | 0 |"]


@pytest.mark.proves("I3")
@pytest.mark.parametrize(
    ("heard", "found"),
    [
        (["a", "b", "c"], Findings()),
        (["a", "c"], Findings(lost=1)),
        ([], Findings(lost=3)),
        (["a", "b", "b", "c"], Findings(executed_twice=1)),
        (["b", "a", "c"], Findings(out_of_order=1)),
        (
            ["a", "b", {"approved": False}],
            Findings(lost=1, faults=["a job was told {'approved': False}, which nobody has said"]),
        ),
    ],
    ids=["all is well", "one is lost", "all are lost", "twice", "out of order", "a stranger"],
)
def test_what_a_job_was_told_is_what_was_accepted(heard: list[Any], found: Findings) -> None:
    findings = Findings()
    compare(["a", "b", "c"], heard, findings)
    assert findings == found
