"""Each rule of a single run is broken by a write around the store and reported."""

from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import runs
from headway.core.doctor.rules import RULES
from headway.testing import FakeClock
from tests.contract.doctor_scene import build_scene, change, violations, write_directly

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite-file"], indirect=True)
FAR = 4_000_000_000_000_000
# The run to change, the new values and the expected findings. The table constraints allow them.
BROKEN: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    ("ended", {"head_key": "ended"}, {("I8", "still has its key")}),
    ("ended", {"waiting_key": "other"}, {("I8", "still has its key"), ("I3", "but no head")}),
    ("ended", {"queue_rank": 1, "ready_seq": 5}, {("I8", "in the queue of its lane")}),
    ("ended", {"token": "t"}, {("I2", "claim is still valid")}),
    ("parked", {"head_key": None}, {("I3", "neither the head of its key nor")}),
    ("ready", {"head_key": "zed"}, {("I4", "a key that is not its own")}),
    ("behind", {"queue_rank": None}, {("I9", "its rank"), ("I10", "no rank among the runs")}),
    ("ready", {"ready_seq": None}, {("I9", "without a position")}),
    ("running", {"instance_id": None}, {("I2", "a claim that no instance holds")}),
    ("running", {"slot": "cron"}, {("I5", "a lane that is not its own")}),
    ("running", {"queue_rank": 0, "ready_seq": 9}, {("I5", "in the queue for another")}),
    ("running", {"instance_id": None, "token": ""}, {("I8", "no instance holds its claim")}),
    ("ready", {"queue_rank": 0}, {("I10", "no rank among the runs that never started")}),
    ("ready", {"started_at": 5}, {("I12", "it is queued, but has a start time")}),
    ("running", {"started_at": None}, {("I12", "but has no start time")}),
    ("parked", {"queue_rank": 1, "ready_seq": 9}, {("I9", "among the runs that never started")}),
    ("cancelling", {"cancel_deadline_at": None, "due_at": None}, {("I11", "has no deadline")}),
    ("ready", {"death_count": 3}, {("I17", "limit of executions without progress")}),
    ("parked", {"stop_count": 20}, {("I17", "limit of executions without progress")}),
    ("ready", {"due_at": FAR}, {("I18", "its next deadline is stored incorrectly")}),
    ("ready", {"child_of": "zed"}, {("I11", "not marked as a child of its parent")}),
    ("ended", {"child_of": "zed"}, {("I8", "still marked as a child")}),
    ("ended", {"is_parent": 1}, {("I11", "would not end its children")}),
    ("ended", {"unread_count": 2}, {("I3", "its unread count is 2, but its inbox has 1")}),
    ("running", {"run_seq": 9}, {("I13", "numbered to 9 without gaps, but there are 6")}),
    ("ready", {"status": "paused"}, {("I12", "the unknown value 'paused'")}),
    ("ready", {"mode": "jump"}, {("I12", "the unknown value 'jump'")}),
    (
        "running",
        {"status": "cancelling", "cancel_deadline_at": FAR, "due_at": FAR},
        {("I12", "end at run")},
    ),
]
BROKEN_ON_SQLITE: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    ("ended", {"slot": "main"}, {("I8", "still holds a slot")}),
    ("ended", {"ended_at": None}, {("I7", "has no end time")}),
    ("ready", {"ended_at": 5}, {("I7", "has an end time, but is active")}),
    (
        "ready",
        {"waiting_key": "bob"},
        {("I4", "and also waits behind the head"), ("I9", "its rank")},
    ),
    ("running", {"head_key": None, "waiting_key": None}, {("I3", "neither"), ("I4", "a slot or")}),
]


def matches(findings: list[tuple[str, str, str]], expected: set[tuple[str, str]]) -> bool:
    """Return whether each expected finding was reported once, and no other."""
    return len(findings) == len(expected) and all(
        any(
            promise == expected_promise and fragment in sentence
            for promise, _, sentence in findings
        )
        for expected_promise, fragment in expected
    )


def _name(value: object) -> str:
    """Return the same name in every process, because a set has no order."""
    return str(sorted(value)) if isinstance(value, set) else str(value)


@pytest.mark.parametrize(("run_name", "columns", "expected"), BROKEN, ids=_name)
async def test_run_that_breaks_a_rule_is_reported(
    store: SqlStore,
    clock: FakeClock,
    run_name: str,
    columns: dict[str, Any],
    expected: set[tuple[str, str]],
) -> None:
    run_id = getattr(await build_scene(store), run_name)
    await write_directly(store, change(runs, [runs.c.id == run_id], **columns))
    findings = await violations(store, clock)
    assert matches(findings, expected), findings
    assert {subject for _, subject, _ in findings} == {f"run {run_id}"}


@ON_SQLITE
@pytest.mark.parametrize(("run_name", "columns", "expected"), BROKEN_ON_SQLITE, ids=_name)
async def test_value_that_a_constraint_would_refuse_is_reported(
    store: SqlStore,
    clock: FakeClock,
    run_name: str,
    columns: dict[str, Any],
    expected: set[tuple[str, str]],
) -> None:
    run_id = getattr(await build_scene(store), run_name)
    await write_directly(store, change(runs, [runs.c.id == run_id], **columns))
    findings = [
        finding for finding in await violations(store, clock) if finding[1] == f"run {run_id}"
    ]
    assert matches(findings, expected), findings


def test_every_rule_of_runs_has_a_test_case() -> None:
    cases = [case for _, _, expected in (*BROKEN, *BROKEN_ON_SQLITE) for case in expected]
    for rule in RULES:
        assert any(
            rule.promise == promise and fragment in rule.sentence for promise, fragment in cases
        )
