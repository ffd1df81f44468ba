"""A job that forks, or takes its whole process with it: the run has a defined end, others go on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headway import Headway, RunContext, RunStatus
from headway.core.ids import RunId
from tests.cli.command import TIMEOUT_S, environment
from tests.engine.scenes import records_of

pytestmark = pytest.mark.backend("sqlite")

ROOT: Final = Path(__file__).parents[2]


def ran(url: str, how: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.fatal_program", url, how],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def headway_that_works(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def works(ctx: RunContext) -> str:
        return "done"

    return hw


@pytest.mark.proves("I17")
async def test_a_job_that_kills_its_own_process_three_times_is_poison_and_others_go_on(
    url: str,
) -> None:
    async with headway_that_works(url) as hw:
        for number in range(1, 4):
            ended = await asyncio.to_thread(ran, url, "kills")
            assert ended.returncode == -signal.SIGKILL
            assert await (await hw.start("works", key="bob")).result(20) == "done"
            run_id = (await records_of(hw))[0].run.id
            while (await hw.run(run_id).record()).run.instance_id is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert (await hw.run(run_id).record()).run.generation == number
        (record,) = [one for one in await records_of(hw) if one.run.key == "ann"]
    assert record.run.status is RunStatus.FAILED
    assert json.loads(record.error or "")["code"] == "poison"


@pytest.mark.proves("I8")
async def test_a_child_that_outlives_a_killed_process_does_not_pass_for_it(url: str) -> None:
    """It has inherited all that was open, and its parent is killed in the midst of a write."""
    run_id, child = await asyncio.to_thread(ran_and_left, url)
    try:
        async with asyncio.timeout(TIMEOUT_S), headway_that_works(url) as hw:
            assert await (await hw.start("works", key="bob")).result() == "done"
            while (await hw.run(run_id).record()).run.instance_id is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            record = await hw.run(run_id).record()
    finally:
        os.kill(child, signal.SIGKILL)
    assert (record.run.status, record.run.death_count) == (RunStatus.RUNNING, 1)


def ran_and_left(url: str) -> tuple[RunId, int]:
    """The run whose process is dead, and the child of that process, which lives."""
    program = [sys.executable, "-m", "tests.engine.fatal_program", url, "child lives"]
    with subprocess.Popen(
        program, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(2)]
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    (child,) = (int(word) for word in said if word.isdecimal())
    (run_id,) = (RunId(word) for word in said if not word.isdecimal())
    return run_id, child


@pytest.mark.proves("I8")
async def test_a_job_whose_forked_child_dies_goes_on_and_so_do_others(url: str) -> None:
    ended = await asyncio.to_thread(ran, url, "child dies")
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-2:] == ["the child ended with 1", "done"]
