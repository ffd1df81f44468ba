"""Limits can be changed while the lanes work (R3.10, R3.12)."""

from typing import Any

import pytest

from headway.lanes import DEFAULT_LIMITS, InvalidLimits, Lanes
from headway.lanes.limits import LIMIT_MAX
from tests.lanes.scenes import WorkStage, settle


async def enqueue(lanes: Lanes, stage: WorkStage, lane: str, count: int) -> None:
    for number in range(count):
        await stage.call(lanes.run(lane, stage.work(f"{lane} {number}")))


@pytest.mark.proves("R3.10")
async def test_higher_limit_takes_effect_at_once(lanes: Lanes, stage: WorkStage) -> None:
    await enqueue(lanes, stage, "cron", 4)
    assert len(stage.begun) == 1
    lanes.set_limit("cron", 3)
    await settle()
    assert stage.begun == ["cron 0", "cron 1", "cron 2"]


@pytest.mark.proves("R3.10")
async def test_lower_limit_interrupts_no_task_and_starts_none(
    lanes: Lanes, stage: WorkStage
) -> None:
    lanes.set_limit("cron", 3)
    await enqueue(lanes, stage, "cron", 5)
    lanes.set_limit("cron", 1)
    assert len(lanes.view("cron").active) == 3
    await stage.release("cron 0", "cron 1")
    assert len(stage.begun) == 3
    await stage.release("cron 2")
    assert stage.begun[3:] == ["cron 3"]


@pytest.mark.proves("R3.10")
async def test_reload_applies_the_configuration_again(lanes: Lanes, stage: WorkStage) -> None:
    lanes.set_limits({"cron": 2, "mail": 3})
    lanes.set_limit("cron", 0)
    lanes.set_limit("session:ann", 0)
    await enqueue(lanes, stage, "cron", 3)
    await enqueue(lanes, stage, "session:ann", 1)
    assert stage.begun == []
    lanes.set_limits({"cron": 2})
    await settle()
    assert stage.begun == ["cron 0", "cron 1", "session:ann 0"]
    assert lanes.view("mail").max_concurrent == 1
    assert lanes.view("main").max_concurrent == DEFAULT_LIMITS["main"]


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize("lane", ["main", "session:ann"])
async def test_limit_of_zero_pauses_and_raising_it_runs_the_backlog(
    lanes: Lanes, stage: WorkStage, lane: str
) -> None:
    lanes.set_limit(lane, 0)
    await enqueue(lanes, stage, lane, 3)
    assert (stage.begun, lanes.view(lane).size) == ([], 3)
    lanes.set_limit(lane, 2)
    await settle()
    assert stage.begun == [f"{lane} 0", f"{lane} 1"]
    await stage.release(f"{lane} 0")
    assert stage.begun == [f"{lane} 0", f"{lane} 1", f"{lane} 2"]


@pytest.mark.proves("R3.12")
async def test_size_of_a_lane_counts_queued_and_active_entries(
    lanes: Lanes, stage: WorkStage
) -> None:
    await enqueue(lanes, stage, "cron", 3)
    view = lanes.view("cron")
    assert (len(view.active), len(view.waiting), view.size) == (1, 2, 3)
    await stage.release("cron 0")
    assert lanes.view("cron").size == 2
    assert lanes.view("session:nobody").size == 0


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        (-1, "lane 'bad': the limit must be 0 to 1,000,000, not -1"),
        (LIMIT_MAX + 1, "must be 0 to"),
        (1.5, "lane 'bad': 1.5 is not a whole number"),
        ("3", "'3' is not a whole number"),
        (True, "True is not a whole number"),
        (None, "None is not a whole number"),
    ],
)
async def test_configuration_is_checked_as_a_whole_before_it_is_applied(
    lanes: Lanes, stage: WorkStage, limit: Any, problem: str
) -> None:
    lanes.set_limits({"main": 2, "mail": 4})
    before = lanes.views()
    with pytest.raises(InvalidLimits, match=problem):
        lanes.set_limits({"main": 9, "bad": limit, "cron": 9})
    with pytest.raises(InvalidLimits, match=problem):
        lanes.set_limit("bad", limit)
    with pytest.raises(InvalidLimits, match=problem):
        Lanes({"bad": limit})
    assert lanes.views() == before


@pytest.mark.proves("R3.12")
def test_all_errors_of_a_configuration_are_reported_at_once(lanes: Lanes) -> None:
    with pytest.raises(InvalidLimits) as invalid:
        lanes.set_limits({"a": -1, "b": 2, "c": -3, " b ": 4})
    assert [problem.split(":")[0] for problem in invalid.value.problems] == [
        "lane 'a'",
        "lane 'c'",
        "lane 'b' is named twice",
    ]
