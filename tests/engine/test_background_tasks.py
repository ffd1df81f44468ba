"""The life cycle of background tasks: which error is raised, and which cancellation propagates."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

import pytest

from headway.core.errors import DatabaseUnavailable, StoreClosed
from headway.services import background_tasks
from headway.services.background_tasks import BackgroundTasks, run_round

OUTAGE: Final = DatabaseUnavailable({"db": "is gone"})


async def never_end() -> None:
    await asyncio.Event().wait()


async def fail(error: BaseException) -> None:
    raise error


def cancelling_count() -> int:
    """Return how many cancellations of this task are in effect.

    If a cancellation by a failed loop were still counted, the next `asyncio.timeout` around it
    would take it for one of the caller.
    """
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_the_error_of_a_loop_is_raised_and_cancels_the_body_and_other_loops() -> None:
    error, loops = ZeroDivisionError("internal error"), list[asyncio.Task[None]]()

    async def body() -> None:
        async with BackgroundTasks() as background:
            loops.append(background.start_loop(never_end()))
            background.start_loop(fail(error))
            await never_end()

    with pytest.raises(ZeroDivisionError) as raised:
        await body()
    assert raised.value is error
    assert loops[0].cancelled()
    assert cancelling_count() == 0


async def test_the_error_of_a_loop_that_fails_during_the_stop_is_raised() -> None:
    """The body has ended, so the code that stops the service is cancelled."""
    is_stopping = asyncio.Event()

    async def fail_at_the_stop() -> None:
        await is_stopping.wait()
        raise ZeroDivisionError

    async def body() -> None:
        async with BackgroundTasks() as background:
            background.start_loop(fail_at_the_stop())
            is_stopping.set()
            await never_end()

    with pytest.raises(ZeroDivisionError):
        await body()
    assert cancelling_count() == 0


async def test_the_error_of_a_loop_is_raised_even_if_the_body_raises_another_error() -> None:
    async def body() -> None:
        async with BackgroundTasks() as background:
            background.start_loop(fail(ZeroDivisionError()))
            try:
                await never_end()
            finally:
                raise ValueError("the clean-up failed")

    with pytest.raises(ZeroDivisionError) as raised:
        await body()
    assert isinstance(raised.value.__context__, ValueError)
    assert cancelling_count() == 0


async def test_the_first_of_several_errors_is_raised() -> None:
    async def body() -> None:
        async with BackgroundTasks() as background:
            background.start_loop(fail(StoreClosed()))
            background.start_loop(fail(ZeroDivisionError()))
            await never_end()

    with pytest.raises(StoreClosed):
        await body()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("mine"),
        ExceptionGroup("mine", [ValueError(), KeyError()]),
        asyncio.CancelledError("mine"),
    ],
)
async def test_an_error_of_the_body_is_raised_unchanged(error: BaseException) -> None:
    async def body() -> None:
        async with BackgroundTasks() as background:
            background.start_loop(never_end())
            raise error

    with pytest.raises(type(error)) as raised:
        await body()
    assert raised.value is error


async def test_cancelling_the_caller_cancels_the_body_and_its_loops() -> None:
    loops, is_open = list[asyncio.Task[None]](), asyncio.Event()

    async def body() -> None:
        async with BackgroundTasks() as background:
            loops.append(background.start_loop(never_end()))
            is_open.set()
            await never_end()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(body())
        await is_open.wait()
        task.cancel()
    assert task.cancelled()
    assert loops[0].cancelled()


async def test_a_cancel_while_the_block_exits_propagates_and_ends_every_task() -> None:
    tasks, is_ending = list[asyncio.Task[None]](), asyncio.Event()

    async def body() -> None:
        async with BackgroundTasks() as background:
            tasks.append(background.start(never_end()))
            is_ending.set()

    async with asyncio.timeout(2), asyncio.TaskGroup() as group:
        task = group.create_task(body())
        await is_ending.wait()
        task.cancel()
    assert task.cancelled()
    assert tasks[0].cancelled()


async def test_when_the_block_ends_loops_are_cancelled_and_other_tasks_are_awaited() -> None:
    is_ending, results = asyncio.Event(), list[str]()

    async def end_late() -> None:
        await is_ending.wait()
        await asyncio.sleep(0.01)
        results.append("ended")

    async with asyncio.timeout(2), BackgroundTasks() as background:
        loop = background.start_loop(never_end())
        background.start(end_late())
        is_ending.set()
    assert loop.cancelled()
    assert results == ["ended"]


async def test_tasks_are_awaited_even_if_the_body_raises_an_error() -> None:
    results = list[str]()

    async def end_late() -> None:
        await background.stop_event.wait()
        results.append("ended")

    background = BackgroundTasks()
    with suppress(ValueError):
        async with asyncio.timeout(2), background:
            background.start(end_late())
            raise ValueError
    assert results == ["ended"]


async def test_when_the_block_ends_the_current_round_finishes_and_no_other_begins() -> None:
    has_begun, results = asyncio.Event(), list[str]()

    async def run_slowly() -> None:
        has_begun.set()
        await background.stop_event.wait()
        await asyncio.sleep(0.01)
        results.append("finished")

    async with asyncio.timeout(2), BackgroundTasks() as background:
        background.repeat("slow", run_slowly, every_s=0.0)
        await has_begun.wait()
    assert results == ["finished"]


async def test_a_task_that_does_not_end_in_time_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background_tasks, "UNWIND_S", 0.01)
    async with asyncio.timeout(2), BackgroundTasks() as background:
        task = background.start(never_end())
    assert task.cancelled()


@pytest.mark.proves("I20")
async def test_a_loop_logs_an_outage_or_a_crash_and_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors, has_succeeded = [OUTAGE, ZeroDivisionError("internal error")], asyncio.Event()

    async def run() -> None:
        if errors:
            raise errors.pop(0)
        has_succeeded.set()

    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(2), BackgroundTasks() as background:
            background.repeat("tests", run, every_s=0.0)
            await has_succeeded.wait()
    outage, crash = caplog.records
    assert outage.getMessage() == f"round_failed loop=tests reason='{OUTAGE}'"
    assert (crash.getMessage(), crash.levelname) == ("round_crashed loop=tests", "ERROR")
    assert crash.exc_info is not None


@pytest.mark.proves("I20")
async def test_a_closed_store_ends_the_loop_and_the_body() -> None:
    async def body() -> None:
        async with asyncio.timeout(2), BackgroundTasks() as background:
            background.repeat("tests", lambda: fail(StoreClosed()), every_s=0.0)
            await never_end()

    with pytest.raises(StoreClosed):
        await body()


async def test_a_round_returns_its_result_or_none_if_it_failed() -> None:
    async def count() -> int:
        return 7

    assert await run_round("tests", count) == 7
    assert await run_round("tests", lambda: fail(OUTAGE)) is None  # type: ignore[func-returns-value]
