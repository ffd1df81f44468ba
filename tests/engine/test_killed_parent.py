"""The process of a parent is killed: its children are found again, or ended with it."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headway import Headway, RunStatus
from headway.core.command.run.cancel import CancelResult
from tests.cli.command import environment
from tests.engine.family import LEASE_TTL_S, family
from tests.engine.scenes import records_of

ROOT: Final = Path(__file__).parents[2]


def killed_family(url: str, ledger: Path) -> str:
    """The id of a run whose process was killed while it waited for its second child."""
    program = [sys.executable, "-m", "tests.engine.family", url, str(ledger)]
    with subprocess.Popen(
        program, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(2)]
        process.kill()
    (run_id,) = set(said) - {"stuck"}
    return run_id


@pytest.mark.proves("I3")
@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])
async def test_a_parent_goes_on_with_the_children_that_it_had(place: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    run_id = await asyncio.to_thread(killed_family, place, ledger)
    async with family(place, str(ledger), stuck=False) as hw:
        assert await hw.run(run_id).result() == ["quick", "slow"]
        runs = await records_of(hw)
    assert [one.run.generation for one in runs] == [2, 1, 2]
    assert {one.run.parent_id for one in runs[1:]} == {run_id}
    quick, slow, again = ledger.read_text().split("\n")[:3]
    assert (quick, slow) == (f"quick {runs[1].run.id}", f"slow {runs[2].run.id}")
    assert again == slow


@pytest.mark.proves("I11")
@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])
async def test_a_parent_whose_process_is_dead_is_cancelled_with_its_children(
    place: str, tmp_path: Path
) -> None:
    run_id = await asyncio.to_thread(killed_family, place, tmp_path / "ledger")
    async with Headway(place, lease_ttl_s=LEASE_TTL_S) as hw:  # It knows none of the jobs.
        answer = await hw.run(run_id).cancel()
        # Who was declared dead by then holds nothing, and has to be asked for nothing.
        assert answer in (CancelResult.REQUESTED, CancelResult.CANCELED)
        ended = [await hw.run(one.run.id).wait_for_end() for one in await records_of(hw)]
    assert [one.run.status for one in ended] == [
        RunStatus.CANCELED,
        RunStatus.SUCCEEDED,
        RunStatus.CANCELED,
    ]
