"""Lists: the state of a run that waits without a slot, and the filter by status."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway import Headway, RunContext
from headway.cli.output.printing import build_table, make_console, state_label
from headway.core.run.explain import Gate
from tests.cli.command import CommandResult, headway

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
        """Succeeds at once."""

    async with hw:
        yield hw


async def run_command(*arguments: str, folder: Path) -> CommandResult:
    settings = {"HEADWAY_DATABASE_URL": f"sqlite:///{folder}/runs.db"}
    return await asyncio.to_thread(headway, *arguments, folder=folder, **settings)


@pytest.mark.proves("R1.6")
async def test_run_that_waits_without_a_slot_is_shown_as_waiting(hw: Headway, folder: Path) -> None:
    run = await hw.start("doze", key="ann")
    async with asyncio.timeout(20):
        explanation = await hw.explain(run.id)
        while explanation.gate is not Gate.WAITING:
            await asyncio.sleep(0.02)
            explanation = await hw.explain(run.id)
    (line,) = (await run_command("run", "list", folder=folder)).out.splitlines()
    assert line.split("\t")[:3] == [run.id, "Running (waiting)", "ann"]
    lanes = (await run_command("lane", "list", folder=folder)).out.splitlines()
    assert "main\t0\t3\t1\t0\t\t" in lanes  # No slot of 3 is held, and one run waits.


@pytest.mark.proves("R1.6")
async def test_runs_are_filtered_by_the_shown_state_or_the_status(
    hw: Headway, folder: Path
) -> None:
    done = await hw.start("echo", key="ann")
    await done.wait_for_end()
    await hw.start("doze", key="bob")
    for name in ("Done", "SUCCEEDED"):
        (line,) = (
            await run_command("run", "list", "--status", name, folder=folder)
        ).out.splitlines()
        assert line.split("\t")[:2] == [done.id, "Done"]
    both = await run_command(
        "run", "list", "--status", "Cancelled", "--status", "done", folder=folder
    )
    assert [line.split("\t")[0] for line in both.out.splitlines()] == [done.id]
    refused = await run_command("run", "list", "--status", "Idle", folder=folder)
    assert (refused.code, refused.out) == (2, "")
    assert "succeeded" in refused.err


@pytest.mark.parametrize("column_count", [60, 80, 100])
def test_id_is_not_wrapped_on_a_narrow_terminal(column_count: int) -> None:
    run_id, error = "0197f3a0-5c1e-7b44-9d0e-3f2a6b7c8d9e", "the feed is gone " * 8
    row = [run_id, "Running (cancelling…)", "ann", "mirror", "main", "2 min 3 s", error]
    lines = print_table([row], column_count)
    assert [line.split()[0] for line in lines if line.startswith(run_id[:4])] == [run_id]
    assert max(map(len, lines)) <= column_count


def test_id_that_does_not_fit_is_wrapped_and_not_cropped() -> None:
    key = "k" * 90
    lines = print_table([[key, "", "", "", "", "", "none"]], 80)
    assert "".join(lines).count("k") == len(key) + 1  # One in the heading `key`.


def print_table(rows: list[list[str]], column_count: int) -> list[str]:
    console = make_console()
    console.width = column_count
    headings = ("run", "state", "key", "job", "lane", "age", "progress or error")
    with console.capture() as captured:
        console.print(build_table(headings, rows, width_max=column_count))
    return captured.get().splitlines()


@pytest.mark.proves("R1.6")
@pytest.mark.parametrize(
    ("status", "state", "label"),
    [
        ("running", "Running", "Running"),
        ("cancelling", "Running", "Running (cancelling…)"),
        ("timed_out", "Failed", "Failed (timed out)"),
        ("rejected", "Idle", "Rejected"),
        ("canceled", "Idle", "Idle"),
    ],
)
def test_state_labels_match_those_of_the_page(status: str, state: str, label: str) -> None:
    assert state_label({"status": status, "state": state, "is_waiting": False}) == label
