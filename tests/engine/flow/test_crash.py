"""A program is killed between an effect and its commit, in every kind of node (I3, R5.5)."""

import asyncio
import re
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from headway import Headway
from headway.worker.program import Worker
from tests.cli.command import environment
from tests.engine.flow.program import (
    EFFECTS,
    NODE_RUNS,
    SHARED,
    headway_with_effects,
    services_with_effects,
)
from tests.engine.flow.scenes import summarize

ADDRESS: Final = "http://127.0.0.1:8080"
ROOT: Final = Path(__file__).parents[3]
COMMIT_COUNT: Final = 23
"""The number of commits of a program that is not killed, or one or two less."""


def run_until_killed(url: str, worker: str, ledger: Path, when: str, number: int) -> str:
    """Run the program until it kills itself. Return the id of its task."""
    program = [sys.executable, "-m", "tests.engine.flow.program", url, worker, str(ledger)]
    ended = subprocess.run(
        [*program, when, str(number)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return ended.stdout.split()[0]


async def stored_effects(database_url: str, task_id: str) -> set[str]:
    """Return the effects whose results were stored before the program was killed."""
    async with Headway(database_url).without_engine() as hw:
        ids = [task_id, *(child.id for child in await hw.flows.tasks(flow="inner"))]
        rows = [row for run_id in ids for row in await hw.flows.node_runs(run_id)]
    return {row.output for row in rows if isinstance(row.output, str)} & set(EFFECTS)


@pytest.mark.proves("I3")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, COMMIT_COUNT + 1))
async def test_a_task_resumes_where_its_program_was_killed(
    database_url: str, tmp_path: Path, number: int, when: str
) -> None:
    """No effect is lost, and no effect with a stored result is repeated (I1)."""
    ledger = tmp_path / "ledger"
    services = services_with_effects(str(ledger))
    async with Worker(services, url=ADDRESS, registry_url="http://127.0.0.1:1") as worker:
        arguments = (database_url, worker.url, ledger, when, number)
        task_id = await asyncio.to_thread(run_until_killed, *arguments)
        stored = await stored_effects(database_url, task_id)
        async with headway_with_effects(database_url, str(ledger)) as hw:
            await hw.workers.register("w", worker.url, ["one", "two"])
            assert await hw.run(task_id).result(60) == SHARED
            rows = await hw.flows.node_runs(task_id)
    assert sorted(summarize(rows)) == sorted(NODE_RUNS)
    assert node_order(summarize(rows)) == node_order(NODE_RUNS)
    counts = Counter(ledger.read_text().split())
    assert set(counts) == set(EFFECTS)
    assert {name for name, count in counts.items() if count > 1}.isdisjoint(stored)
    assert max(counts.values()) <= 2


def node_order(runs: list[str]) -> list[str]:
    """Return the nodes in order; concurrent branches of a node may end in any order."""
    return [node for node, _ in groupby(re.split(r"[/\[ ]", run)[0] for run in runs)]
