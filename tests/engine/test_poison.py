"""A supervisor restarts a program whose job ends its process: its run fails as poison."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from headway import Headway, RunContext
from headway.core.ids import RunId
from headway.core.run.run import DEATH_COUNT_MAX, STOP_COUNT_MAX, RunRecord
from headway.process.fork_guard import EXIT_CODE
from tests.cli.command import TIMEOUT_S, environment
from tests.engine.flow.scenes import a_flow
from tests.engine.poison_program import make_headway

pytestmark = pytest.mark.backend("sqlite-file")

ROOT: Final = Path(__file__).parents[2]
START_COUNT_MAX: Final = 25


class Supervisor:
    """Restarts the program whenever it exits, as systemd and Kubernetes do."""

    def __init__(self, url: str, folder: Path, *, loop: str = "uvloop") -> None:
        self._command = [sys.executable, "-m", "tests.engine.poison_program", url, loop]
        self._path = url.removeprefix("sqlite:///")
        self._folder = folder
        self.start_count = 0
        self.stop_event = threading.Event()
        """Set when the test ends: nothing else would end the thread of `run_until_ended`."""

    def run_until_ended(self, run_id: RunId, *, kills: Callable[[Any], bool] | None = None) -> None:
        """Restart the program until the run has ended. Kill it whenever `kills` returns True."""
        while not self._is_over(run_id):
            assert self.start_count < START_COUNT_MAX, self.status(run_id)
            self.start_count += 1
            with self._open_program() as process:
                while process.poll() is None and not self._is_over(run_id):
                    if kills is not None and kills(self):
                        self._kill(process)
                    time.sleep(0.02)

    @contextmanager
    def _open_program(self) -> "Iterator[subprocess.Popen[bytes]]":
        process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=environment(POISON_FOLDER=str(self._folder)),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT_S)
            finally:
                with suppress(ProcessLookupError):  # With the processes that a job has forked.
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _kill(self, process: "subprocess.Popen[bytes]") -> None:
        """Send SIGTERM first, and SIGKILL if the process does not exit."""
        process.terminate()
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _is_over(self, run_id: RunId) -> bool:
        return self.stop_event.is_set() or self.has_ended(run_id)

    def has_ended(self, run_id: RunId) -> bool:
        return self.status(run_id) not in ("queued", "running", "cancelling")

    def status(self, run_id: RunId) -> str:
        with closing(sqlite3.connect(self._path, timeout=30)) as database:
            ((status,),) = database.execute("SELECT status FROM runs WHERE id = ?", (run_id,))
        return str(status)

    def executions(self, job: str) -> list[str]:
        path = self._folder / job
        return path.read_text().splitlines() if path.exists() else []


async def supervise(
    url: str,
    folder: Path,
    job: str,
    how: str,
    *,
    loop: str = "uvloop",
    kills: Callable[[Supervisor], bool] | None = None,
) -> tuple[str, str, Supervisor]:
    """Run `job` under a supervisor. A run that waits for its slot must succeed.

    Return the status of the run, its result or error, and the supervisor.
    """
    supervisor = Supervisor(url, folder, loop=loop)
    async with make_headway(url).without_engine() as hw:
        deadly = await hw.submit(job, key="ann", params={"how": how})
        other = await hw.submit("works", key="bob")
        try:
            await asyncio.to_thread(supervisor.run_until_ended, deadly.id, kills=kills)
            await asyncio.to_thread(supervisor.run_until_ended, other.id)
        finally:
            supervisor.stop_event.set()
        record, works = await deadly.record(), await other.record()
    assert works.run.status == "succeeded"
    assert len(supervisor.executions("works")) == 1
    return record.run.status, record.result or record.error or "", supervisor


@pytest.mark.proves("I17")
@pytest.mark.parametrize(
    ("how", "loop"),
    [
        ("SIGKILL", "uvloop"),
        ("SIGSEGV", "uvloop"),
        ("os._exit", "asyncio"),
        ("os.abort", "uvloop"),
        ("closed files", "uvloop"),
        ("closed files", "asyncio"),
    ],
)
async def test_a_job_that_kills_its_process_is_poison_after_three_executions(
    url: str, tmp_path: Path, how: str, loop: str
) -> None:
    status, output, supervisor = await supervise(url, tmp_path, "deadly", how, loop=loop)
    assert (status, json.loads(output)["code"]) == ("failed", "poison")
    assert len(supervisor.executions("deadly")) == DEATH_COUNT_MAX


@pytest.mark.proves("I17")
@pytest.mark.parametrize(
    ("job", "how"),
    [
        ("deadly", "SIGTERM"),
        ("deadly", "SIGINT"),
        ("deadly_plain", "SIGTERM"),
        ("never_unwinds", "SIGTERM"),
    ],
)
async def test_a_job_that_stops_its_process_is_poison_after_twenty_executions(
    url: str, tmp_path: Path, job: str, how: str
) -> None:
    status, output, supervisor = await supervise(url, tmp_path, job, how)
    assert (status, json.loads(output)["code"]) == ("failed", "poison")
    assert "the process that executed it was stopped 20 times" in output
    assert len(supervisor.executions(job)) == STOP_COUNT_MAX


@pytest.mark.proves("I17")
async def test_a_flow_whose_function_stops_its_process_is_poison(url: str, tmp_path: Path) -> None:
    supervisor = Supervisor(url, tmp_path)
    node = {"kind": "local", "function": "deadly_function", "prep": {"input_key": "$params.how"}}
    async with make_headway(url).without_engine() as hw:
        await hw.flows.publish("deadly", a_flow({"a": node}))
        task = await hw.flows.start("deadly", params={"how": "SIGTERM"})
        await asyncio.to_thread(supervisor.run_until_ended, task.id)
        record = await task.record()
    assert json.loads(record.error or "")["code"] == "poison"
    assert len(supervisor.executions("deadly_function")) <= STOP_COUNT_MAX + 1


@pytest.mark.proves("I17")
async def test_a_job_that_blocks_the_event_loop_until_a_kill_is_poison(
    url: str, tmp_path: Path
) -> None:
    seen_count = 0

    def kills(supervisor: Supervisor) -> bool:
        nonlocal seen_count
        count = len(supervisor.executions("deadly"))
        is_new, seen_count = count > seen_count, count
        return is_new

    status, output, supervisor = await supervise(
        url, tmp_path, "deadly", "blocked loop", kills=kills
    )
    assert (status, json.loads(output)["code"]) == ("failed", "poison")
    assert len(supervisor.executions("deadly")) == DEATH_COUNT_MAX


@pytest.mark.proves("I17")
@pytest.mark.parametrize("job", ["deadly", "deadly_plain"])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("sys.exit", "SystemExit: 3"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("GeneratorExit", "GeneratorExit"),
    ],
)
async def test_a_job_that_raises_an_exit_exception_fails_only_its_run(
    url: str, tmp_path: Path, job: str, how: str, message: str
) -> None:
    status, output, supervisor = await supervise(url, tmp_path, job, how)
    assert (status, json.loads(output)) == ("failed", {"code": "error", "message": message})
    assert (len(supervisor.executions(job)), supervisor.start_count) == (1, 1)


@pytest.mark.proves("I17")
async def test_an_asyncio_task_that_exits_ends_the_process_and_fails_its_run(
    url: str, tmp_path: Path
) -> None:
    """asyncio ends the event loop when any task exits, awaited or not."""
    status, output, supervisor = await supervise(url, tmp_path, "deadly_child_task", "sys.exit")
    assert (status, json.loads(output)["message"]) == ("failed", "SystemExit: 3")
    assert len(supervisor.executions("deadly_child_task")) == 1


@pytest.mark.proves("I1", "I2")
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("job", ["deadly", "deadly_plain", "deadly_child_task"])
async def test_a_forked_child_exits_when_it_returns_from_the_job(
    url: str, tmp_path: Path, job: str, loop: str
) -> None:
    status, output, supervisor = await supervise(url, tmp_path, job, "fork", loop=loop)
    assert (status, json.loads(output)) == ("succeeded", f"the child ended with {EXIT_CODE}")
    assert (len(supervisor.executions(job)), supervisor.start_count) == (1, 1)


class Stop(asyncio.Event):
    """Set by the job to request the stop of its program."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = asyncio.Event()
        """Set by the program when it begins to stop."""


Job = Callable[[RunContext, Stop], Any]


class Program:
    """Opens and closes headway in this process, as a supervisor restarts a program."""

    def __init__(self, url: str, folder: Path, job: Job) -> None:
        self._url = url
        self._folder = folder
        self._job = job
        self.execution_count = 0
        self.stop_requested = Stop()
        """The job has asked the program to stop."""
        self.is_waiting = asyncio.Event()
        """The program waits for `stop_requested`."""

    def open(self) -> Headway:
        hw = Headway(self._url, stop_wait_s=0.0, data=self._folder)
        self.stop_requested = stop = Stop()
        self.is_waiting = is_waiting = asyncio.Event()

        @hw.job(timeout_s=None)
        async def stops(ctx: RunContext) -> None:
            self.execution_count += 1
            await is_waiting.wait()
            await self._job(ctx, stop)

        @hw.job(lane="other")
        async def noop(ctx: RunContext) -> None: ...

        return hw

    async def run(self, *, times: int) -> RunRecord:
        """Start a run, and restart the program until the run has ended, at most `times` times."""
        run_id = None
        async with asyncio.timeout(60):
            for _ in range(times):
                async with self.open() as hw:
                    run = await hw.start("stops") if run_id is None else hw.run(run_id)
                    run_id = run.id
                    ended = asyncio.create_task(run.wait_for_end())
                    stop = asyncio.create_task(self.stop_requested.wait())
                    self.is_waiting.set()
                    await asyncio.wait([ended, stop], return_when=asyncio.FIRST_COMPLETED)
                    hw.note_stop()
                    self.stop_requested.has_begun.set()
                    has_ended = ended.done()
                    ended.cancel()
                    stop.cancel()
                if has_ended:
                    break
            async with self.open().without_engine() as hw:
                return await hw.run(run_id or "").record()


async def write_the_same_file(ctx: RunContext, stop: Stop) -> None:
    async with ctx.file("x") as file:
        await file.write(b"x")
    stop.set()
    await asyncio.sleep(600)


async def start_the_same_child(ctx: RunContext, stop: Stop) -> None:
    await ctx.start("noop", name="c")
    stop.set()
    await asyncio.sleep(600)


async def ask_without_answer(ctx: RunContext, stop: Stop) -> None:
    await ctx.interrupt({"tool": "delete"}, timeout_s=0.001)
    stop.set()
    await asyncio.sleep(600)


async def sleep_after_the_stop(ctx: RunContext, stop: Stop) -> None:
    stop.set()
    await stop.has_begun.wait()
    await ctx.sleep(60)


@pytest.mark.proves("I17")
@pytest.mark.parametrize(
    ("job", "free_count"),
    [
        (write_the_same_file, 1),
        (start_the_same_child, 1),
        (ask_without_answer, 0),
        (sleep_after_the_stop, 0),
    ],
)
async def test_a_job_that_stops_its_process_without_progress_is_poison(
    url: str, tmp_path: Path, job: Job, free_count: int
) -> None:
    program = Program(url, tmp_path / "data", job)
    record = await program.run(times=STOP_COUNT_MAX + 5)
    assert json.loads(record.error or "{}").get("code") == "poison"
    assert program.execution_count == STOP_COUNT_MAX + free_count


async def sleep_before_the_stop(ctx: RunContext, stop: Stop) -> None:
    async def stop_once_waiting() -> None:
        while ctx.execution.has_slot:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(stop_once_waiting())
        await ctx.sleep(600)


async def ask_before_the_stop(ctx: RunContext, stop: Stop) -> None:
    async def stop_once_waiting() -> None:
        while not ctx.execution.open_interrupt_count:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        stop.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(stop_once_waiting())
        await ctx.interrupt({"tool": "delete"}, timeout_s=600)


async def write_another_file(ctx: RunContext, stop: Stop) -> None:
    async with ctx.file(f"{ctx.generation}.jpg") as file:
        await file.write(b"x")
    stop.set()
    await asyncio.sleep(600)


@pytest.mark.proves("I17")
@pytest.mark.parametrize("job", [sleep_before_the_stop, ask_before_the_stop, write_another_file])
async def test_stops_do_not_count_against_a_run_that_waits_or_makes_progress(
    url: str, tmp_path: Path, job: Job
) -> None:
    program = Program(url, tmp_path / "data", job)
    record = await program.run(times=STOP_COUNT_MAX + 2)
    assert (record.run.status, record.run.stop_count) == ("running", 0)
    assert program.execution_count == STOP_COUNT_MAX + 2


@pytest.mark.proves("I17")
async def test_a_stop_begins_when_it_is_requested_and_not_when_headway_closes(
    url: str, tmp_path: Path
) -> None:
    """A server closes its connections first, and the job may already wait by then."""
    may_wait = asyncio.Event()

    async def wait_after_the_request(ctx: RunContext, stop: Stop) -> None:
        stop.set()
        await may_wait.wait()
        await sleep_before_the_stop(ctx, stop)

    program = Program(url, tmp_path / "data", wait_after_the_request)
    async with program.open() as hw:
        run = await hw.start("stops")
        program.is_waiting.set()
        await program.stop_requested.wait()
        hw.note_stop()
        program.stop_requested.clear()
        may_wait.set()
        await program.stop_requested.wait()
    async with program.open().without_engine() as hw:
        assert (await hw.run(run.id).record()).run.stop_count == 1


async def test_a_job_may_fork_with_multiprocessing(url: str, tmp_path: Path) -> None:
    status, output, supervisor = await supervise(url, tmp_path, "multiprocesses", "child")
    assert (status, json.loads(output)) == ("succeeded", 0)
    assert len(supervisor.executions("child")) == 1
