"""What the lists show of a run that waits without a slot, and by which words they are narrowed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway import Headway, RunContext
from headway.cli.output.printing import state_label
from headway.core.run.explain import Gate
from tests.cli.command import Ended, headway

pytestmark = pytest.mark.backend("sqlite")

HOUR_S = 3_600


@pytest.fixture
async def hw(folder: Path) -> AsyncIterator[Headway]:
    hw = Headway(f"sqlite:///{folder}/runs.db", stop_wait_s=0)

    @hw.job()
    async def doze(ctx: RunContext) -> None:
        await ctx.sleep(HOUR_S)

    @hw.job()
    async def echo(ctx: RunContext) -> None:
        """It is done at once."""

    async with hw:
        yield hw


async def asked(*words: str, folder: Path) -> Ended:
    settings = {"HEADWAY_DATABASE_URL": f"sqlite:///{folder}/runs.db"}
    return await asyncio.to_thread(headway, *words, folder=folder, **settings)


@pytest.mark.proves("R1.6")
async def test_who_waits_without_a_slot_is_shown_so(hw: Headway, folder: Path) -> None:
    run = await hw.start("doze", key="ann")
    async with asyncio.timeout(20):
        found = await hw.explain(run.id)
        while found.gate is not Gate.WAITING:
            await asyncio.sleep(0.02)
            found = await hw.explain(run.id)
    (line,) = (await asked("run", "list", folder=folder)).out.splitlines()
    assert line.split("\t")[:3] == [run.id, "Running (waiting)", "ann"]
    lanes = (await asked("lane", "list", folder=folder)).out.splitlines()
    assert "main\t0\t3\t1\t0\t\t" in lanes  # Of 3 slots none is held, and one run waits.


@pytest.mark.proves("R1.6")
async def test_runs_are_listed_by_the_words_that_are_shown(hw: Headway, folder: Path) -> None:
    done = await hw.start("echo", key="ann")
    await done.wait_for_end()
    await hw.start("doze", key="bob")
    for word in ("Done", "SUCCEEDED"):
        (line,) = (await asked("run", "list", "--status", word, folder=folder)).out.splitlines()
        assert line.split("\t")[:2] == [done.id, "Done"]
    both = await asked("run", "list", "--status", "Cancelled", "--status", "done", folder=folder)
    assert [line.split("\t")[0] for line in both.out.splitlines()] == [done.id]
    refused = await asked("run", "list", "--status", "Idle", folder=folder)
    assert (refused.code, refused.out) == (2, "")
    assert "succeeded" in refused.err


@pytest.mark.proves("R1.6")
@pytest.mark.parametrize(
    ("status", "state", "word"),
    [
        ("running", "Running", "Running"),
        ("cancelling", "Running", "Running (cancelling…)"),
        ("timed_out", "Failed", "Failed (timed out)"),
        ("rejected", "Idle", "Rejected"),
        ("canceled", "Idle", "Idle"),
    ],
)
def test_a_state_is_told_as_the_page_does(status: str, state: str, word: str) -> None:
    assert state_label({"status": status, "state": state, "is_waiting": False}) == word
