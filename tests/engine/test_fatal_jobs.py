"""A job that forks or kills its process: its run has a defined end, and others continue."""

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


def run_program(url: str, how: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.fatal_program", url, how],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def headway_with_working_job(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def works(ctx: RunContext) -> str:
        return "done"

    return hw


@pytest.mark.proves("I17")
async def test_a_job_that_kills_its_process_three_times_fails_as_poison(
    url: str,
) -> None:
    async with headway_with_working_job(url) as hw:
        for number in range(1, 4):
            ended = await asyncio.to_thread(run_program, url, "kills")
            assert ended.returncode == -signal.SIGKILL
            assert await (await hw.start("works", key="bob")).result(20) == "done"
            run_id = (await records_of(hw))[0].run.id
            while (await hw.run(run_id).record()).run.instance_id is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert (await hw.run(run_id).record()).run.generation == number
        (record,) = [record for record in await records_of(hw) if record.run.key == "ann"]
    assert record.run.status is RunStatus.FAILED
    assert json.loads(record.error or "")["code"] == "poison"


@pytest.mark.proves("I8")
async def test_a_killed_process_counts_as_dead_even_if_its_forked_child_survives(url: str) -> None:
    """The child inherited all open files, and its parent is killed during a write."""
    run_id, child = await asyncio.to_thread(run_until_killed, url)
    try:
        async with asyncio.timeout(TIMEOUT_S), headway_with_working_job(url) as hw:
            assert await (await hw.start("works", key="bob")).result() == "done"
            while (await hw.run(run_id).record()).run.instance_id is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            record = await hw.run(run_id).record()
    finally:
        os.kill(child, signal.SIGKILL)
    assert (record.run.status, record.run.death_count) == (RunStatus.RUNNING, 1)


def run_until_killed(url: str) -> tuple[RunId, int]:
    """Return the run of a killed process, and the pid of its surviving child."""
    program = [sys.executable, "-m", "tests.engine.fatal_program", url, "child survives"]
    with subprocess.Popen(
        program, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(2)]
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    (child,) = (int(line) for line in lines if line.isdecimal())
    (run_id,) = (RunId(line) for line in lines if not line.isdecimal())
    return run_id, child


@pytest.mark.proves("I8")
async def test_a_job_continues_after_its_forked_child_exits(url: str) -> None:
    ended = await asyncio.to_thread(run_program, url, "child exits")
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-2:] == ["the child ended with 1", "done"]
