"""The process of a parent is killed: its children are resumed, or ended with it."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headway import Headway, RunStatus
from headway.core.command.run.cancel import CancelResult
from tests.cli.command import environment
from tests.engine.parent_program import LEASE_TTL_S, make_headway
from tests.engine.scenes import records_of

ROOT: Final = Path(__file__).parents[2]


def start_and_kill_parent(url: str, ledger: Path) -> str:
    """Start a parent run and kill its process while it waits for its second child."""
    program = [sys.executable, "-m", "tests.engine.parent_program", url, str(ledger)]
    with subprocess.Popen(
        program, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(2)]
        process.kill()
    (run_id,) = set(lines) - {"stuck"}
    return run_id


@pytest.mark.proves("I3")
@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])
async def test_a_resumed_parent_keeps_its_children(database_url: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    run_id = await asyncio.to_thread(start_and_kill_parent, database_url, ledger)
    async with make_headway(database_url, str(ledger), is_stuck=False) as hw:
        assert await hw.run(run_id).result() == ["quick", "slow"]
        runs = await records_of(hw)
    assert [record.run.generation for record in runs] == [2, 1, 2]
    assert {record.run.parent_id for record in runs[1:]} == {run_id}
    quick, slow, again = ledger.read_text().split("\n")[:3]
    assert (quick, slow) == (f"quick {runs[1].run.id}", f"slow {runs[2].run.id}")
    assert again == slow


@pytest.mark.proves("I11")
@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])
async def test_a_parent_with_a_dead_process_is_canceled_with_its_children(
    database_url: str, tmp_path: Path
) -> None:
    run_id = await asyncio.to_thread(start_and_kill_parent, database_url, tmp_path / "ledger")
    async with Headway(database_url, lease_ttl_s=LEASE_TTL_S) as hw:  # It has none of the jobs.
        result = await hw.run(run_id).cancel()
        # If the holder was already declared dead, the run is canceled without a request.
        assert result in (CancelResult.REQUESTED, CancelResult.CANCELED)
        ended = [await hw.run(record.run.id).wait_for_end() for record in await records_of(hw)]
    assert [record.run.status for record in ended] == [
        RunStatus.CANCELED,
        RunStatus.SUCCEEDED,
        RunStatus.CANCELED,
    ]
