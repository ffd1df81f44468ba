"""A session's lane exists while somebody is in it, and leaves nothing behind (R3.12)."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.lanes import InvalidLimits, Lanes
from tests.lanes.scenes import Stage

ROOT = Path(__file__).parents[2]
OWN_LANES = ["cron", "main", "subagent"]


def names_of(lanes: Lanes) -> list[str]:
    return [view.name for view in lanes.views()]


@pytest.mark.proves("R3.12")
async def test_a_session_lane_vanishes_when_it_is_idle(lanes: Lanes, stage: Stage) -> None:
    await stage.call(lanes.run_in_session("ann", stage.work("a")))
    assert set(names_of(lanes)) == {*OWN_LANES, "session:ann"}
    await stage.let_go("a")
    assert names_of(lanes) == OWN_LANES
    assert lanes._table._lanes == {}


@pytest.mark.proves("R3.12")
async def test_a_session_lane_never_vanishes_while_a_successor_waits(
    lanes: Lanes, stage: Stage
) -> None:
    for number in range(3):
        await stage.call(lanes.run("session:ann", stage.work(str(number))))
    for number in range(3):
        assert stage.begun == [str(n) for n in range(number + 1)], "one at a time"
        assert lanes.view("session:ann").size == 3 - number
        await stage.let_go(str(number))
    assert names_of(lanes) == OWN_LANES


@pytest.mark.proves("R3.12")
async def test_it_does_not_vanish_while_it_is_paused_and_somebody_waits(
    lanes: Lanes, stage: Stage
) -> None:
    lanes.set_limit("session:ann", 2)
    await stage.call(lanes.run("session:ann", stage.work("active")))
    lanes.set_limit("session:ann", 0)
    waiting = await stage.call(lanes.run("session:ann", stage.work("waiting")))
    await stage.let_go("active")
    assert lanes.view("session:ann").size == 1
    lanes.set_limit("session:ann", 1)
    await stage.let_go("waiting")
    assert await waiting == "waiting done"
    assert names_of(lanes) == OWN_LANES, "and a limit like everybody's is not remembered"


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize("how", ["cancel", "clear", "reset"])
async def test_it_vanishes_however_the_last_one_leaves(
    lanes: Lanes, stage: Stage, how: str
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
def test_a_refused_limit_leaves_no_lane_behind(lanes: Lanes) -> None:
    with pytest.raises(InvalidLimits):
        lanes.set_limit("session:ann", -1)
    assert names_of(lanes) == OWN_LANES


@pytest.mark.proves("R3.12")
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_leak_over_a_million_keys() -> None:
    """In a process of its own: measuring the coverage of a million calls takes minutes."""
    others = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    command = [sys.executable, "-m", "tests.lanes.million"]
    ended = subprocess.run(
        command, cwd=ROOT, env=others, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    before, after, after_a_crowd = map(int, ended.stdout.split())
    assert after <= before * 1.05
    assert after_a_crowd <= before * 1.05
