"""A failed job is visible: in the log of any program, and with a traceback in its run."""

import asyncio
import gc
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from headway import Backoff, BlockingRunContext, Headway, RunContext, RunFailed
from headway.bootstrap import build_life_lock
from headway.core.command.admin.instance import DeclareDead
from headway.core.run.run import Recovery, RunRecord
from headway.core.run.status import RunStatus
from headway.services.engine.sweep import sweep
from headway.services.job_errors import TRACEBACK_LENGTH_MAX, format_traceback, is_function_error
from tests.cli.command import TIMEOUT_S, environment
from tests.contract.scenes import claim_run, orphan_run, read_events, register_instance, start_run
from tests.engine.scenes import open_bare_store, records

pytestmark = pytest.mark.backend("sqlite")

ROOT = Path(__file__).parents[2]
EXITS: list[type[BaseException]] = [KeyboardInterrupt, GeneratorExit, SystemExit]


async def run_to_end(hw: Headway, job: str, **params: Any) -> RunRecord:
    async with hw:
        return await (await hw.start(job, params=params)).wait_for_end()


@pytest.mark.proves("I17", "R2.1")
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
@pytest.mark.parametrize("error", EXITS)
async def test_an_exit_exception_that_a_job_raises_fails_its_run(
    url: str, error: type[BaseException], is_async: bool
) -> None:
    hw, call_count = Headway(url), 0

    def fail(ctx: object) -> None:
        nonlocal call_count
        call_count += 1
        raise error

    async def fail_async(ctx: RunContext) -> None:
        fail(ctx)

    async def well(ctx: RunContext) -> str:
        return "well"

    hw.job(name="fail", retries=3)(fail_async if is_async else fail)
    hw.job(well)
    async with hw:
        with pytest.raises(RunFailed) as failed:
            await (await hw.start("fail", key="ann")).result(20)
        assert await (await hw.start("well", key="ann")).result(20) == "well"
    assert failed.value.error == {"code": "error", "message": error.__name__}
    assert call_count == 1


async def test_a_plain_job_that_raises_stop_iteration_fails(url: str) -> None:
    """A future does not accept StopIteration, so its waiter would wait forever."""
    hw = Headway(url)

    @hw.job
    def fail(ctx: BlockingRunContext) -> None:
        next(iter([]))

    async with asyncio.timeout(20):
        record = await run_to_end(hw, "fail")
    assert '"message":"StopIteration"' in (record.error or "")


@pytest.mark.proves("R7.11")
async def test_an_unconfigured_log_shows_a_failed_job_with_its_traceback(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    hw = Headway(url)

    @hw.job(retries=1, backoff=Backoff(base_s=0.0, cap_s=0.0))
    async def fail(ctx: RunContext) -> None:
        raise ValueError("no more")

    assert logging.getLogger("headway").getEffectiveLevel() == logging.WARNING
    record = await run_to_end(hw, "fail")
    logger = "headway.services.engine.execute"
    attempt, end = [line for line in caplog.records if line.name == logger]
    assert (attempt.levelname, attempt.exc_info) == ("WARNING", None)
    assert "attempt=1 error='ValueError: no more'" in attempt.getMessage()
    assert end.levelname == "ERROR"
    assert f"run_id={record.run.id}" in end.getMessage()
    assert end.exc_info is not None
    assert end.exc_info[0] is ValueError


@pytest.mark.proves("R7.11")
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
async def test_the_traceback_of_a_failed_job_is_stored_with_its_run(
    url: str, is_async: bool
) -> None:
    hw = Headway(url)

    def look_up(ctx: object) -> None:
        {}["the feed"]  # type: ignore[index]

    async def look_up_async(ctx: RunContext) -> None:
        look_up(ctx)

    hw.job(name="fail")(look_up_async if is_async else look_up)
    record = await run_to_end(hw, "fail")
    lines = (record.traceback or "").splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert any(line.endswith("in look_up") for line in lines)
    assert lines[-1] == "KeyError: 'the feed'"


@pytest.mark.proves("R7.11")
async def test_a_run_that_succeeds_keeps_the_traceback_of_its_last_failed_attempt(url: str) -> None:
    hw = Headway(url)

    @hw.job(retries=2, backoff=Backoff(base_s=0.0, cap_s=0.0))
    async def fail(ctx: RunContext) -> str:
        if ctx.attempt < 3:
            raise ValueError(f"attempt {ctx.attempt}")
        return "done"

    record = await run_to_end(hw, "fail")
    assert record.run.status is RunStatus.SUCCEEDED
    assert (record.traceback or "").endswith("ValueError: attempt 2\n")


@pytest.mark.proves("S4", "R7.11")
@pytest.mark.parametrize("retries", [0, 1])
async def test_a_stored_traceback_holds_no_secret(
    url: str, caplog: pytest.LogCaptureFixture, retries: int
) -> None:
    hw = Headway(url)

    @hw.job(retries=retries, backoff=Backoff(base_s=0.0, cap_s=0.0))
    async def fail(ctx: RunContext, pin: SecretStr) -> None:
        raise ValueError(f"{pin.get_secret_value()} was refused, api_key=sesame-1, url=fine")

    record = await run_to_end(hw, "fail", pin="4711-0815")
    last = (record.traceback or "").splitlines()[-1]
    assert last == "ValueError: (secret) was refused, api_key=(secret), url=fine"
    assert "4711-0815" not in (record.traceback or "")
    assert "(secret) was refused" in (record.error or "")
    async with open_bare_store(url) as store:
        stored = await read_events(store)
    logged = [json.dumps(vars(line), default=repr) for line in caplog.records]
    assert any("was refused" in event.payload for event in stored)
    assert any("in fail" in line for line in logged)  # The traceback.
    for text in (record.error or "", *(event.payload for event in stored), *logged, caplog.text):
        assert "4711-0815" not in text


@pytest.mark.proves("R7.11")
@pytest.mark.parametrize(
    ("result", "code"),
    [(object(), "invalid_result"), ("x" * 2_000_000, "too_large")],
    ids=["invalid_result", "too_large"],
)
async def test_a_refused_result_is_logged_once(
    url: str, caplog: pytest.LogCaptureFixture, result: object, code: str
) -> None:
    hw = Headway(url)

    @hw.job
    async def work(ctx: RunContext) -> object:
        return result

    record = await run_to_end(hw, "work")
    assert code in (record.error or "")
    assert_logged_once(caplog, record, code)


@pytest.mark.proves("R7.11")
async def test_parameters_refused_at_the_start_are_logged_once(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Headway(url).without_engine() as other:
        other.job(name="work")(takes_anything)
        run = await other.start("work", params={"size": "large"})
    hw = Headway(url)

    @hw.job
    async def work(ctx: RunContext, size: int) -> None: ...

    async with hw:
        record = await hw.run(run.id).wait_for_end()
    assert_logged_once(caplog, record, "invalid_params")


@pytest.mark.proves("R7.11")
async def test_a_timed_out_run_is_logged_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    hw = Headway(url)

    @hw.job(timeout_s=0.01)
    async def work(ctx: RunContext) -> None:
        await asyncio.sleep(600)

    record = await run_to_end(hw, "work")
    assert record.run.status is RunStatus.TIMED_OUT
    assert_logged_once(caplog, record, "execution_timeout")


@pytest.mark.proves("R7.11")
@pytest.mark.parametrize(
    ("recovery", "code"), [(Recovery.FAIL, "executor_lost"), (Recovery.RESUME, "poison")]
)
async def test_a_run_that_fails_because_its_executor_died_is_logged_once(
    url: str, caplog: pytest.LogCaptureFixture, recovery: Recovery, code: str
) -> None:
    async with open_bare_store(url) as store:
        claimed = await start_run(store, recovery=recovery)
        for _ in range(2 if recovery is Recovery.RESUME else 0):
            await orphan_run(store, claimed.run_id)
            await claim_run(store, await register_instance(store))
        for holder in await store.runs.instances():
            await store.apply(DeclareDead(holder.id, is_proven=True))
        await sweep(store, store.runs, build_life_lock([url], store))
        (record,) = await records(store)
    assert record.run.status is RunStatus.FAILED
    assert_logged_once(caplog, record, code)


async def takes_anything(ctx: RunContext, size: str) -> None: ...


def assert_logged_once(caplog: pytest.LogCaptureFixture, record: RunRecord, code: str) -> None:
    (line,) = [line for line in caplog.records if line.levelno >= logging.ERROR]
    text = line.getMessage()
    assert f"run_id={record.run.id} " in text
    assert (f"key={record.run.key} " in text, f"job={record.run.job} " in text) == (True, True)
    assert code in text


def test_a_long_traceback_keeps_its_end() -> None:
    def fall(depth: int) -> None:
        if depth == 0:
            raise ValueError("x" * 10_000)
        fall(depth - 1)

    with pytest.raises(ValueError, match="x") as failed:
        fall(300)
    failed.value.add_note("y" * 2 * TRACEBACK_LENGTH_MAX)
    text = format_traceback(failed.value)
    assert len(text) == TRACEBACK_LENGTH_MAX
    assert text.startswith("(the beginning is left out)\n")
    assert text.endswith("y\n")


def test_the_traceback_of_an_unprintable_error_is_still_text() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert "UnprintableError" in format_traceback(UnprintableError("\0\ud800"))
    assert "\0" not in format_traceback(ValueError("a\0b\ud800"))


def test_a_coroutine_that_is_closed_from_outside_is_not_a_function_error() -> None:
    seen: list[bool] = []

    async def work() -> None:
        task = asyncio.current_task()
        try:
            await asyncio.Event().wait()
        except GeneratorExit as error:
            seen.append(is_function_error(error, task))
            raise

    loop = asyncio.new_event_loop()
    task = loop.create_task(work())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    del task
    gc.collect()
    assert seen == [False]


def interrupt_by_signal() -> None:
    signal.raise_signal(signal.SIGINT)


def raise_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", ["default", "python"])
@pytest.mark.parametrize(
    ("interrupt", "expected"), [(interrupt_by_signal, False), (raise_interrupt, True)]
)
def test_a_keyboard_interrupt_is_a_job_error_only_if_the_job_raised_it(
    interrupt: Callable[[], None], expected: bool, handler: str
) -> None:
    def handle(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    chosen = signal.default_int_handler if handler == "default" else handle
    before = signal.signal(signal.SIGINT, chosen)
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            interrupt()
        assert is_function_error(raised.value, None) is expected
    finally:
        signal.signal(signal.SIGINT, before)


PROGRAM = """
import asyncio, signal, sys, time
from headway import Headway, RunContext

hw = Headway(sys.argv[1], stop_wait_s=0)

@hw.job
async def block(ctx: RunContext) -> None:
    print("begun", flush=True)
    time.sleep(60)

async def main() -> None:
    async with hw:
        await hw.start("block", key="ann")
        await asyncio.Event().wait()

signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


@pytest.mark.backend("sqlite-file")
@pytest.mark.proves("I17")
async def test_a_second_interrupt_ends_a_blocked_program_without_failing_the_run(
    url: str,
) -> None:
    def interrupt_until_exit() -> int:
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, url],
            cwd=ROOT,
            env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", "")),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            while process.poll() is None:
                try:
                    process.wait(0.5)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGINT)
            return process.wait(TIMEOUT_S)

    assert await asyncio.to_thread(interrupt_until_exit) != 0
    async with open_bare_store(url) as store:
        (record,) = await records(store)
    assert (record.run.status, record.error) == (RunStatus.RUNNING, None)
