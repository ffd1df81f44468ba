"""Each rule of a single run, broken by a write past the store, and named by the doctor."""

from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import runs
from headway.core.doctor.rules import RULES
from headway.testing import FakeClock
from tests.contract.examined import change, plant, set_scene, violations

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite-file"], indirect=True)
FAR = 4_000_000_000_000_000
# Who is changed, to what, and what is said of it; the constraints of the tables do not object.
BROKEN: list[tuple[str, dict[str, Any], set[tuple[str, str]]]] = [
    ("ended", {"head_key": "ended"}, {("I8", "still has its key")}),
    ("ended", {"waiting_key": "other"}, {("I8", "still has its key"), ("I3", "but no head")}),
    ("ended", {"queue_rank": 1, "ready_seq": 5}, {("I8", "in the queue of its lane")}),
    ("ended", {"token": "t"}, {("I2", "claim is still in force")}),
    ("parked", {"head_key": None}, {("I3", "neither the head of its key nor")}),
    ("ready", {"head_key": "zed"}, {("I4", "a key that is not its own")}),
    ("behind", {"queue_rank": None}, {("I9", "its rank"), ("I10", "no place among those")}),
    ("ready", {"ready_seq": None}, {("I9", "without a place")}),
    ("running", {"instance_id": None}, {("I2", "a claim that no instance holds")}),
    ("running", {"slot": "cron"}, {("I5", "a lane that is not its own")}),
    ("running", {"queue_rank": 0, "ready_seq": 9}, {("I5", "in the queue for another")}),
    ("running", {"instance_id": None, "token": ""}, {("I8", "nobody holds its claim")}),
    ("ready", {"queue_rank": 0}, {("I10", "no place among those that never started")}),
    ("ready", {"started_at": 5}, {("I12", "it is queued, but was started")}),
    ("running", {"started_at": None}, {("I12", "was never started")}),
    ("parked", {"queue_rank": 1, "ready_seq": 9}, {("I9", "among those that never did")}),
    ("cancelling", {"cancel_deadline_at": None, "due_at": None}, {("I11", "has no deadline")}),
    ("ready", {"death_count": 3}, {("I17", "that it is poison")}),
    ("parked", {"stop_count": 20}, {("I17", "that it is poison")}),
    ("ready", {"due_at": FAR}, {("I18", "at the wrong time")}),
    ("ready", {"child_of": "zed"}, {("I11", "not among those that end with its parent")}),
    ("ended", {"child_of": "zed"}, {("I8", "still a child")}),
    ("ended", {"is_parent": 1}, {("I11", "does not know whether its children are")}),
    ("ended", {"unread_count": 2}, {("I3", "2 messages are unread, but there are 1")}),
    ("running", {"run_seq": 9}, {("I13", "numbered to 9 without gaps, but 6 are there")}),
    ("ready", {"status": "paused"}, {("I12", "the unknown word 'paused'")}),
    ("ready", {"mode": "jump"}, {("I12", "the unknown word 'jump'")}),
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
    ("ready", {"waiting_key": "bob"}, {("I4", "and waits behind the head"), ("I9", "its rank")}),
    ("running", {"head_key": None, "waiting_key": None}, {("I3", "neither"), ("I4", "a slot or")}),
]


def is_said(found: list[tuple[str, str, str]], expected: set[tuple[str, str]]) -> bool:
    """Whether each was found once, and nothing else."""
    return len(found) == len(expected) and all(
        any(promise == wanted and words in sentence for promise, _, sentence in found)
        for wanted, words in expected
    )


def _name(value: object) -> str:
    """The same in every process: a set has no order of its own."""
    return str(sorted(value)) if isinstance(value, set) else str(value)


@pytest.mark.parametrize(("who", "columns", "expected"), BROKEN, ids=_name)
async def test_what_breaks_a_rule_of_runs_is_named(
    store: SqlStore,
    clock: FakeClock,
    who: str,
    columns: dict[str, Any],
    expected: set[tuple[str, str]],
) -> None:
    run_id = getattr(await set_scene(store), who)
    await plant(store, change(runs, [runs.c.id == run_id], **columns))
    found = await violations(store, clock)
    assert is_said(found, expected), found
    assert {place for _, place, _ in found} == {f"run {run_id}"}


@ON_SQLITE
@pytest.mark.parametrize(("who", "columns", "expected"), BROKEN_ON_SQLITE, ids=_name)
async def test_what_a_constraint_would_have_refused_is_named_too(
    store: SqlStore,
    clock: FakeClock,
    who: str,
    columns: dict[str, Any],
    expected: set[tuple[str, str]],
) -> None:
    run_id = getattr(await set_scene(store), who)
    await plant(store, change(runs, [runs.c.id == run_id], **columns))
    found = [one for one in await violations(store, clock) if one[1] == f"run {run_id}"]
    assert is_said(found, expected), found


def test_every_rule_of_runs_is_broken_above() -> None:
    cases = [case for _, _, expected in (*BROKEN, *BROKEN_ON_SQLITE) for case in expected]
    for rule in RULES:
        assert any(rule.promise == promise and words in rule.sentence for promise, words in cases)
