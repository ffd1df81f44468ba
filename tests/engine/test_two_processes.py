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
from headway.services.submit.admit import admit
from tests.cli.command import environment
from tests.engine.worker import headway_with_jobs

pytestmark = pytest.mark.backend("sqlite")
ROOT: Final = Path(__file__).parents[2]


class Shared:
    """A database on which another process works, and the ledger in which all jobs sign."""

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

    def here(self) -> Headway:
        return headway_with_jobs(self.url, str(self.ledger), own="here")

    def start_there(self, key: str) -> RunId:
        """Let the other process start a run of `shared`."""
        stdin: IO[str] | None = self.worker.stdin
        assert stdin is not None
        print(key, file=stdin, flush=True)
        return RunId(self.read_line())

    def read_line(self) -> str:
        assert self.worker.stdout is not None
        return self.worker.stdout.readline().strip()

    def signed(self, run_ids: list[RunId]) -> list[list[str]]:
        """What the ledger says of these runs: who, and which."""
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return [line for line in lines if line[1] in run_ids]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    shared = Shared(tmp_path_factory.mktemp("shared"))
    yield shared
    shared.worker.communicate()
    assert shared.worker.returncode == 0


@pytest.mark.proves("I9")
async def test_a_key_whose_runs_belong_to_two_processes_keeps_its_order(shared: Shared) -> None:
    jobs = ["here", "there", "here", "there", "there", "here"]
    async with shared.here() as hw:
        submissions = [
            Submit(run_id=hw._ids.run_id(), key=Key("ann"), job=job, on_conflict=OnConflict.ENQUEUE)
            for job in jobs
        ]
        # Not by `start`, which takes only the jobs of this process.
        run_ids = [await admit(hw.store, submission) for submission in submissions]
        pids = [await hw.run(run_id).result() for run_id in run_ids]
    assert pids == [os.getpid() if job == "here" else shared.worker.pid for job in jobs]
    assert shared.signed(run_ids) == [list(pair) for pair in zip(jobs, run_ids, strict=True)]


@pytest.mark.proves("I1")
async def test_what_either_process_may_run_is_run_once(shared: Shared) -> None:
    run_ids: list[RunId] = []
    async with shared.here() as hw:
        for number in range(50):
            key = f"key-{number % 10}"
            run_ids.append(await asyncio.to_thread(shared.start_there, key))
            run = await hw.start("shared", key=key, on_conflict=OnConflict.ENQUEUE)
            run_ids.append(run.id)
        await asyncio.gather(*(hw.run(run_id).result() for run_id in run_ids))
    assert Counter(run_id for _, run_id in shared.signed(run_ids)) == Counter(run_ids)
