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
from tests.engine.flow.scenes import told

ADDRESS: Final = "http://127.0.0.1:8080"
ROOT: Final = Path(__file__).parents[3]
COMMIT_COUNT: Final = 23
"""As many as the program makes when nobody kills it, or one or two less."""


def killed(url: str, worker: str, ledger: Path, when: str, number: int) -> str:
    """The id of the task whose program is dead."""
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


async def finished(place: str, task_id: str) -> set[str]:
    """The effects whose ends were stored when the program died."""
    async with Headway(place).without_engine() as hw:
        ids = [task_id, *(child.id for child in await hw.flows.tasks(flow="inner"))]
        rows = [row for one in ids for row in await hw.flows.node_runs(one)]
    return {row.output for row in rows if isinstance(row.output, str)} & set(EFFECTS)


@pytest.mark.proves("I3")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, COMMIT_COUNT + 1))
async def test_a_task_goes_on_where_its_program_was_killed(
    place: str, tmp_path: Path, number: int, when: str
) -> None:
    """Nothing is lost, and of what has an end that was stored nothing is done again (I1)."""
    ledger = tmp_path / "ledger"
    services = services_with_effects(str(ledger))
    async with Worker(services, url=ADDRESS, registry_url="http://127.0.0.1:1") as worker:
        given = (place, worker.url, ledger, when, number)
        task_id = await asyncio.to_thread(killed, *given)
        stored = await finished(place, task_id)
        async with headway_with_effects(place, str(ledger)) as hw:
            await hw.workers.register("w", worker.url, ["one", "two"])
            assert await hw.run(task_id).result(60) == SHARED
            rows = await hw.flows.node_runs(task_id)
    assert sorted(told(rows)) == sorted(NODE_RUNS)
    assert nodes_of(told(rows)) == nodes_of(NODE_RUNS)
    counts = Counter(ledger.read_text().split())
    assert set(counts) == set(EFFECTS)
    assert {name for name, count in counts.items() if count > 1}.isdisjoint(stored)
    assert max(counts.values()) <= 2


def nodes_of(runs: list[str]) -> list[str]:
    """In their order: that of branches which are under way at once is anybody's guess."""
    return [node for node, _ in groupby(re.split(r"[/\[ ]", one)[0] for one in runs)]
