"""A session lane exists only while it has entries, and leaves nothing behind (R3.12)."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.lanes import InvalidLimits, Lanes
from tests.lanes.scenes import WorkStage

ROOT = Path(__file__).parents[2]
OWN_LANES = ["cron", "main", "subagent"]


def lane_names(lanes: Lanes) -> list[str]:
    return [view.name for view in lanes.views()]


@pytest.mark.proves("R3.12")
async def test_idle_session_lane_is_removed(lanes: Lanes, stage: WorkStage) -> None:
    await stage.call(lanes.run_in_session("ann", stage.work("a")))
    assert set(lane_names(lanes)) == {*OWN_LANES, "session:ann"}
    await stage.release("a")
    assert lane_names(lanes) == OWN_LANES
    assert lanes._table._lanes == {}


@pytest.mark.proves("R3.12")
async def test_session_lane_is_not_removed_while_a_successor_waits(
    lanes: Lanes, stage: WorkStage
) -> None:
    for number in range(3):
        await stage.call(lanes.run("session:ann", stage.work(str(number))))
    for number in range(3):
        assert stage.begun == [str(n) for n in range(number + 1)], "one at a time"
        assert lanes.view("session:ann").size == 3 - number
        await stage.release(str(number))
    assert lane_names(lanes) == OWN_LANES


@pytest.mark.proves("R3.12")
async def test_paused_session_lane_is_not_removed_while_an_entry_waits(
    lanes: Lanes, stage: WorkStage
) -> None:
    lanes.set_limit("session:ann", 2)
    await stage.call(lanes.run("session:ann", stage.work("active")))
    lanes.set_limit("session:ann", 0)
    waiting = await stage.call(lanes.run("session:ann", stage.work("waiting")))
    await stage.release("active")
    assert lanes.view("session:ann").size == 1
    lanes.set_limit("session:ann", 1)
    await stage.release("waiting")
    assert await waiting == "waiting done"
    assert lane_names(lanes) == OWN_LANES, "a default limit is not stored"


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize("how", ["cancel", "clear", "reset"])
async def test_session_lane_is_removed_whatever_ends_its_last_entry(
    lanes: Lanes, stage: WorkStage, how: str
) -> None:
    lanes.set_limit("session:ann", 0 if how == "clear" else 1)
    call = await stage.call(lanes.run("session:ann", stage.work("a")))
    match how:
        case "cancel":
            call.cancel()
        case "clear":
            lanes.clear("session:ann")
        case _:
            lanes.reset_all()
    await asyncio.wait([call], timeout=0.01)
    assert lanes._table._lanes == {}


@pytest.mark.proves("R3.12")
def test_refused_limit_creates_no_lane(lanes: Lanes) -> None:
    with pytest.raises(InvalidLimits):
        lanes.set_limit("session:ann", -1)
    assert lane_names(lanes) == OWN_LANES


@pytest.mark.proves("R3.12")
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_million_keys_leak_no_memory() -> None:
    """It runs in its own process: measuring coverage of a million calls takes minutes."""
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    command = [sys.executable, "-m", "tests.lanes.memory_of_a_million"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    before, after, after_a_crowd = map(int, ended.stdout.split())
    assert after <= before * 1.05
    assert after_a_crowd <= before * 1.05
