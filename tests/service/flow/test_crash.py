"""A program is killed between an effect and its commit, in every kind of node (I3, R5.5)."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from headway.worker.program import Worker
from tests.cli.command import environment
from tests.service.flow.program import (
    EFFECTS,
    NODE_RUNS,
    SHARED,
    headway_with_effects,
    services_with_effects,
)
from tests.service.flow.scenes import told

ADDRESS: Final = "http://127.0.0.1:8080"
ROOT: Final = Path(__file__).parents[3]
COMMIT_COUNT: Final = 23
"""As many as the program makes when nobody kills it, or one or two less."""


def killed(url: str, worker: str, ledger: Path, when: str, number: int) -> str:
    """The id of the task whose program is dead."""
    program = [sys.executable, "-m", "tests.service.flow.program", url, worker, str(ledger)]
    ended = subprocess.run(
        [*program, when, str(number)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return ended.stdout.split()[0]


@pytest.mark.parametrize("number", range(1, COMMIT_COUNT + 1))
async def test_i3_a_task_goes_on_where_its_program_was_killed(
    place: str, tmp_path: Path, number: int
) -> None:
    """Nothing is lost, and of what has an end that was stored nothing is done again."""
    ledger = tmp_path / "ledger"
    when = "before" if number % 3 else "after"
    services = services_with_effects(str(ledger))
    async with Worker(services, url=ADDRESS, registry_url="http://127.0.0.1:1") as worker:
        given = (place, worker.url, ledger, when, number)
        task_id = await asyncio.to_thread(killed, *given)
        async with headway_with_effects(place, str(ledger)) as hw:
            await hw.workers.register("w", worker.url, ["one", "two"])
            assert await hw.run(task_id).result(60) == SHARED
            assert told(await hw.flows.node_runs(task_id)) == NODE_RUNS
    counts = Counter(ledger.read_text().split())
    assert set(counts) == set(EFFECTS)
    assert sum(counts.values()) <= len(EFFECTS) + 1
