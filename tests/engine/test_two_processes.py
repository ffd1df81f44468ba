"""Two processes work on one SQLite file: each run is executed once, by one of them, in order."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import pytest

from headway import Headway
from headway.core.command.run.submit import Submit
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from tests.cli.command import environment
from tests.engine.worker import headway_with_jobs

pytestmark = pytest.mark.backend("sqlite")
ROOT: Final = Path(__file__).parents[2]


class SharedDatabase:
    """A database that another process also uses, and the ledger that all jobs append to."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder}/headway.db"
        self.ledger = folder / "ledger"
        self.worker = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.worker", self.url, self.ledger],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.read_line() == "ready"

    def open_here(self) -> Headway:
        return headway_with_jobs(self.url, str(self.ledger), own="here")

    def start_there(self, key: str) -> RunId:
        """Make the other process start a run of `shared`."""
        stdin: IO[str] | None = self.worker.stdin
        assert stdin is not None
        print(key, file=stdin, flush=True)
        return RunId(self.read_line())

    def read_line(self) -> str:
        assert self.worker.stdout is not None
        return self.worker.stdout.readline().strip()

    def ledger_lines(self, run_ids: list[RunId]) -> list[list[str]]:
        """Return the ledger lines of these runs as [job, run id]."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [line for line in lines if line[1] in run_ids]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabase]:
    shared = SharedDatabase(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.worker.communicate()
    assert shared.worker.returncode == 0


@pytest.mark.proves("I9")
async def test_runs_of_a_key_keep_their_order_across_two_processes(shared: SharedDatabase) -> None:
    jobs = ["here", "there", "here", "there", "there", "here"]
    async with shared.open_here() as hw:
        submissions = [
            Submit(run_id=hw._ids.run_id(), key=Key("ann"), job=job, on_conflict=OnConflict.ENQUEUE)
            for job in jobs
        ]
        # `start` would accept only the jobs of this process.
        for submission in submissions:
            await hw.store.apply(submission)
        run_ids = [submission.run_id for submission in submissions]
        pids = [await hw.run(run_id).result() for run_id in run_ids]
    assert pids == [os.getpid() if job == "here" else shared.worker.pid for job in jobs]
    assert shared.ledger_lines(run_ids) == [list(pair) for pair in zip(jobs, run_ids, strict=True)]


@pytest.mark.proves("I1")
async def test_a_run_that_either_process_can_execute_runs_once(shared: SharedDatabase) -> None:
    run_ids: list[RunId] = []
    async with shared.open_here() as hw:
        for number in range(50):
            key = f"key-{number % 10}"
            run_ids.append(await asyncio.to_thread(shared.start_there, key))
            run = await hw.start("shared", key=key, on_conflict=OnConflict.ENQUEUE)
            run_ids.append(run.id)
        await asyncio.gather(*(hw.run(run_id).result() for run_id in run_ids))
    assert Counter(run_id for _, run_id in shared.ledger_lines(run_ids)) == Counter(run_ids)
