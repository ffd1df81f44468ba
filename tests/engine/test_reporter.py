"""Progress, log lines and events of a job: batched, in order and complete (R1.10)."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from headway import Headway, RunContext, RunHandle, RunStatus
from headway.core.command.protocol import Command
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import SECOND_US
from headway.core.run.events import Event
from headway.core.run.run import Claim
from headway.services import retrying
from headway.services.context import reporter
from headway.services.context.blocking_context import BlockingRunContext
from headway.services.context.reporter import Reporter

LINE_COUNT = 5_000


async def read_events(run: RunHandle) -> list[Event]:
    return [event async for event in run.events()]


def lines_of(events: Sequence[Event]) -> list[str]:
    logged = [json.loads(event.payload)["lines"] for event in events if event.type == "run_log"]
    return [line["message"] for lines in logged for line in lines]


def assert_ten_a_second(events: Sequence[Event], kind: str) -> None:
    """Assert at most ten events per second on average, plus some for start and end."""
    of_kind = [event for event in events if event.type == kind]
    seconds = (events[-1].at - events[0].at) / SECOND_US
    assert 1 <= len(of_kind) <= 10 * seconds + 3, (len(of_kind), seconds)


@pytest.mark.proves("R1.10")
async def test_thousands_of_log_lines_become_few_events_in_order(url: str) -> None:
    hw = Headway(url)

    @hw.job
    async def logs(ctx: RunContext) -> None:
        for number in range(LINE_COUNT):
            await ctx.log(str(number))

    @hw.job
    def logs_in_a_thread(ctx: BlockingRunContext) -> None:
        for number in range(LINE_COUNT):
            ctx.log(str(number))

    async with hw:
        for job in ("logs", "logs_in_a_thread"):
            run = await hw.start(job)
            await run.result(60)
            events = await read_events(run)
            assert lines_of(events) == [str(number) for number in range(LINE_COUNT)]
            assert_ten_a_second(events, "run_log")


@pytest.mark.proves("R1.10")
async def test_long_log_lines_are_split_and_apply_backpressure(url: str) -> None:
    hw, lengths = Headway(url), (200_000, 200_000, 900_000, 10, 10)

    @hw.job
    async def logs(ctx: RunContext) -> None:
        for length in lengths:
            await ctx.log("x" * length)

    async with hw:
        run = await hw.start("logs")
        await run.result(30)
        events = await read_events(run)
    assert [len(line) for line in lines_of(events)] == list(lengths)
    sizes = [len(event.payload) for event in events if event.type == "run_log"]
    assert [size > reporter.PENDING_WEIGHT_MAX for size in sizes].count(
        True
    ) == 1  # The longest line alone.
    assert_ten_a_second(events, "run_log")


@pytest.mark.proves("R4.11")
async def test_custom_events_stay_separate_and_share_commits(url: str) -> None:
    hw = Headway(url)

    @hw.job
    async def streams(ctx: RunContext) -> int:
        before = hw.store.writer.batch_count
        for number in range(400):
            await ctx.emit("token", {"number": number})
        return hw.store.writer.batch_count - before

    async with hw:
        run = await hw.start("streams")
        commit_count = await run.result(30)
        events = await read_events(run)
    tokens = [json.loads(event.payload)["number"] for event in events if event.type == "token"]
    assert tokens == list(range(400))
    seconds = (events[-1].at - events[0].at) / SECOND_US
    assert commit_count <= 10 * seconds + 5  # Lease renewals are commits too.


@pytest.mark.proves("R1.10")
async def test_pending_reports_are_written_before_the_next_command(url: str) -> None:
    hw = Headway(url)

    @hw.job
    async def reports(ctx: RunContext) -> None:
        await ctx.log("first")  # Written at once; the next lines are batched.
        await ctx.log("one")
        await ctx.log("two")
        await ctx.emit("tool", {"name": "knife"})
        await ctx.log("three")
        await ctx.save_checkpoint(1)
        await ctx.log("four")
        await ctx.interrupt("May I?", timeout_s=0.01)
        await ctx.log("five")
        await ctx.sleep(1)
        await ctx.log("six")
        await ctx.log("last")

    async with hw:
        run = await hw.start("reports")
        await run.result(30)
        events = await read_events(run)
    seen = [
        tuple(line["message"] for line in json.loads(event.payload)["lines"])
        if event.type == "run_log"
        else event.type
        for event in events
        if event.type not in ("run_state_changed", "run_woken", "run_resumed")
    ]
    assert seen == [
        ("first",), ("one", "two"), "tool", ("three",), "run_checkpoint", ("four",),
        "permission_request", "run_waiting", "permission_result", ("five",), "run_waiting",
        ("six",), ("last",),
    ]  # fmt: skip
    assert json.loads(events[-1].payload)["to"] == "succeeded"


@pytest.mark.proves("R1.10")
async def test_the_last_log_lines_of_a_canceled_or_failed_run_are_stored(url: str) -> None:
    hw, has_begun = Headway(url), asyncio.Event()

    @hw.job
    async def stays(ctx: RunContext) -> None:
        await ctx.log("begins")
        await ctx.log("waits")
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ctx.log("cleans up")

    @hw.job
    async def fails(ctx: RunContext) -> None:
        await ctx.log("begins")
        await ctx.log("fails")
        raise ValueError("no")

    async with hw:
        stayed = await hw.start("stays")
        await has_begun.wait()
        await stayed.cancel()
        failed = await hw.start("fails")
        for run, status, expected in (
            (stayed, RunStatus.CANCELED, ["begins", "waits", "cleans up"]),
            (failed, RunStatus.FAILED, ["begins", "fails"]),
        ):
            assert (await run.wait_for_end()).run.status is status
            assert lines_of(await read_events(run)) == expected


class UnavailableStore:
    """A store that is unavailable for its first few commands."""

    def __init__(self, hw: Headway, error_count: int) -> None:
        self._store = hw.store
        self._error_count = error_count

    async def apply(self, command: Command[Any]) -> Any:
        if self._error_count:
            self._error_count -= 1
            await asyncio.sleep(0)
            raise DatabaseUnavailable({"database": "unavailable"})
        return await self._store.apply(command)


@pytest.mark.proves("I20")
@pytest.mark.backend("sqlite")
async def test_an_outage_loses_and_reorders_no_log_line(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrying, "RETRY_S", 0.01)
    hw = Headway(url)

    @hw.job
    async def reports(ctx: RunContext) -> None:
        claim: Claim = ctx.execution.claim
        context: Any = ctx
        context.__dict__["_reporter"] = Reporter(UnavailableStore(hw, 3), claim)  # type: ignore[arg-type]
        await asyncio.gather(*(ctx.log(str(number)) for number in range(50)))

    async with hw:
        run = await hw.start("reports")
        await run.result(30)
        assert lines_of(await read_events(run)) == [str(number) for number in range(50)]
