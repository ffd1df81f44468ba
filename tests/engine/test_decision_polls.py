"""An engine polls for decisions of others about its runs (I8, R4.10, R4.13)."""

import asyncio
from collections.abc import Collection
from typing import Any, Final

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.inbox import ANSWER
from headway.core.ids import InstanceId, RunId
from headway.core.run.status import RunStatus
from headway.services.engine import engine
from headway.testing import a_message
from tests.engine.scenes import open_bare_store
from tests.runtime.scenes import until

HOUR_S: Final = 3_600

pytestmark = pytest.mark.backend("sqlite")


class Polls:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all_count = 0
        self.some: list[set[RunId]] = []
        held_runs, filter_held_runs = SqlRunReader.held_runs, SqlRunReader.filter_held_runs

        async def count_all(reader: SqlRunReader, *arguments: Any, **options: Any) -> Any:
            self.all_count += 1
            return await held_runs(reader, *arguments, **options)

        async def record_some(
            reader: SqlRunReader, instance_id: InstanceId, run_ids: Collection[RunId]
        ) -> Any:
            self.some.append(set(run_ids))
            return await filter_held_runs(reader, instance_id, run_ids)

        monkeypatch.setattr(SqlRunReader, "held_runs", count_all)
        monkeypatch.setattr(SqlRunReader, "filter_held_runs", record_some)


def headway_with_jobs(url: str, *, lease_ttl_s: float) -> Headway:
    hw = Headway(url, lease_ttl_s=lease_ttl_s, stop_wait_s=0)

    @hw.job()
    async def hang(ctx: RunContext) -> None:
        await asyncio.Event().wait()

    @hw.job()
    async def ask(ctx: RunContext) -> Any:
        return await ctx.interrupt("?", timeout_s=HOUR_S, call_id="one")

    return hw


@pytest.mark.proves("I8")
async def test_only_runs_with_an_open_interrupt_are_polled_often(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    hw, polls = headway_with_jobs(url, lease_ttl_s=HOUR_S), Polls(monkeypatch)
    async with asyncio.timeout(60), hw, open_bare_store(url) as elsewhere:
        await hw.start("hang", key="ann")
        run = await hw.start("ask", key="bob")
        await until(lambda: len(polls.some) > 5, what="it was polled a few times")
        assert {frozenset(run_ids) for run_ids in polls.some} == {frozenset({run.id})}
        assert polls.all_count <= 1
        await elsewhere.apply(a_message(run.id, "yes", kind=ANSWER, call_id="one"))
        assert await run.result() == "yes"
        count = len(polls.some)
        await asyncio.sleep(0.05)
        assert len(polls.some) <= count + 1  # One may have been in flight.


@pytest.mark.proves("R4.10")
async def test_a_cancel_without_a_hint_is_found_within_a_heartbeat(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll interval is at most a third of the lease."""
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    async with asyncio.timeout(60), headway_with_jobs(url, lease_ttl_s=1) as hw:
        run = await hw.start("hang")
        await until(lambda: _is_running(hw, run.id), what="it runs")
        async with open_bare_store(url) as elsewhere:
            await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("R4.10", "R4.14")
async def test_a_cancel_without_a_hint_is_found_soon_under_a_long_lease(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.POLL_ALL_S == 5
    monkeypatch.setattr(engine, "POLL_ALL_S", 0.2)
    async with asyncio.timeout(60), headway_with_jobs(url, lease_ttl_s=HOUR_S) as hw:
        run = await hw.start("hang")
        await until(lambda: _is_running(hw, run.id), what="it runs")
        async with open_bare_store(url) as elsewhere:
            await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


async def _is_running(hw: Headway, run_id: RunId) -> bool:
    return await hw.run(run_id).status() is RunStatus.RUNNING
