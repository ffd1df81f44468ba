"""How an engine learns without hints what others decided about its runs (I8, R4.10, R4.13)."""

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
from tests.engine.scenes import looked_at
from tests.runtime.scenes import until

HOUR_S: Final = 3_600

pytestmark = pytest.mark.backend("sqlite")


class Looks:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_all_count = 0
        self.at_some: list[set[RunId]] = []
        holder_ids, held_among = SqlRunReader.runs_held_by, SqlRunReader.filter_held_runs

        async def all_of_them(reader: SqlRunReader, *who: Any, **more: Any) -> Any:
            self.at_all_count += 1
            return await holder_ids(reader, *who, **more)

        async def some_of_them(
            reader: SqlRunReader, instance_id: InstanceId, run_ids: Collection[RunId]
        ) -> Any:
            self.at_some.append(set(run_ids))
            return await held_among(reader, instance_id, run_ids)

        monkeypatch.setattr(SqlRunReader, "runs_held_by", all_of_them)
        monkeypatch.setattr(SqlRunReader, "held_among", some_of_them)


def working(url: str, *, lease_ttl_s: float) -> Headway:
    hw = Headway(url, lease_ttl_s=lease_ttl_s, stop_wait_s=0)

    @hw.job()
    async def hang(ctx: RunContext) -> None:
        await asyncio.Event().wait()

    @hw.job()
    async def ask(ctx: RunContext) -> Any:
        return await ctx.interrupt("?", timeout_s=HOUR_S, call_id="one")

    return hw


@pytest.mark.proves("I8")
async def test_only_who_waits_for_a_person_is_looked_at_often(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    hw, looks = working(url, lease_ttl_s=HOUR_S), Looks(monkeypatch)
    async with asyncio.timeout(60), hw, looked_at(url) as elsewhere:
        await hw.start("hang", key="ann")
        run = await hw.start("ask", key="bob")
        await until(lambda: len(looks.at_some) > 5, what="it was looked at a few times")
        assert {frozenset(some) for some in looks.at_some} == {frozenset({run.id})}
        assert looks.at_all_count <= 1
        await elsewhere.apply(a_message(run.id, "yes", kind=ANSWER, call_id="one"))
        assert await run.result() == "yes"
        count = len(looks.at_some)
        await asyncio.sleep(0.05)
        assert len(looks.at_some) <= count + 1  # One may have been under way.


@pytest.mark.proves("R4.10")
async def test_without_a_hint_a_cancel_is_found_within_a_heartbeat(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom an engine looks otherwise: a third of the lease is the most."""
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    async with asyncio.timeout(60), working(url, lease_ttl_s=1) as hw:
        run = await hw.start("hang")
        await until(lambda: _runs(hw, run.id), what="it runs")
        async with looked_at(url) as elsewhere:
            await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("R4.10", "R4.14")
async def test_without_a_hint_a_cancel_is_found_soon_however_long_the_lease_is(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.POLL_ALL_S == 5
    monkeypatch.setattr(engine, "POLL_ALL_S", 0.2)
    async with asyncio.timeout(60), working(url, lease_ttl_s=HOUR_S) as hw:
        run = await hw.start("hang")
        await until(lambda: _runs(hw, run.id), what="it runs")
        async with looked_at(url) as elsewhere:
            await elsewhere.apply(RequestCancel(run_id=run.id))
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


async def _runs(hw: Headway, run_id: RunId) -> bool:
    return await hw.run(run_id).status() is RunStatus.RUNNING
