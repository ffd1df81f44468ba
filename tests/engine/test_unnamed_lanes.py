"""Runs in lanes that none of the jobs here names: they start as soon as those in any other lane."""

import asyncio
from typing import Any

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.protocol import Command
from headway.core.command.run.claim import ClaimRuns
from headway.core.command.run.submit import Submit
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import Key, LaneName, RunId
from headway.services.engine import claimer as claiming
from headway.services.submit import run_watcher as news
from headway.services.submit.admit import admit
from tests.engine.scenes import looked_at

pytestmark = pytest.mark.backend("sqlite")
HOUR_S = 3_600


@pytest.fixture(autouse=True)
def no_looks_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lanes are asked once, when the engine begins."""
    monkeypatch.setattr(claiming, "ALL_LANES_POLL_S", HOUR_S)


def no_op(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, number: int = 0) -> int:
        await ctx.sleep(0)
        return number

    return hw


@pytest.mark.proves("R1.3", "R1.4")
async def test_runs_in_a_lane_that_no_job_names_start_at_once_and_after_each_other(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls are an hour apart; the lane has one slot."""
    monkeypatch.setattr(claiming, "POLL_S", HOUR_S)
    async with no_op(url) as hw, asyncio.timeout(60):
        for _ in range(2):
            starts = (hw.start("work", lane="subagent", params={"number": n}) for n in range(3))
            runs = await asyncio.gather(*starts)
            assert [await run.result() for run in runs] == [0, 1, 2]


@pytest.mark.proves("R1.3", "R1.4")
@pytest.mark.parametrize("lane_count", [2, claiming.EXTRA_LANE_COUNT_MAX + 2])
async def test_runs_of_many_such_lanes_do_not_wait_for_each_other(
    url: str, monkeypatch: pytest.MonkeyPatch, lane_count: int
) -> None:
    """Also of more lanes than are asked each time, and when one transaction accepts them all."""
    monkeypatch.setattr(claiming, "POLL_S", HOUR_S)
    async with no_op(url) as hw, asyncio.timeout(60):
        for _ in range(2):
            lanes = [f"lane-{number}" for number in range(lane_count)]
            runs = await asyncio.gather(*(hw.start("work", lane=lane) for lane in lanes * 3))
            assert [await run.result() for run in runs] == [0] * 3 * lane_count


@pytest.mark.proves("R1.3")
async def test_where_a_run_was_won_the_next_one_of_another_process_is_found(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite carries no hints: the lane is polled from the first run on."""
    monkeypatch.setattr(claiming, "POLL_S", 0.01)
    monkeypatch.setattr(news, "POLL_S", 0.01)
    async with looked_at(url) as elsewhere, asyncio.timeout(60):
        first, second = (
            Submit(run_id=RunId(key), key=Key(key), job="work", lane=LaneName("aside"))
            for key in ("ann", "ben")
        )
        await admit(elsewhere, first)
        async with no_op(url) as hw:
            await hw.run(first.run_id).result()
            await admit(elsewhere, second)
            await hw.run(second.run_id).result()


@pytest.mark.proves("R1.3")
async def test_a_lane_that_could_not_be_asked_is_asked_in_the_next_round(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database goes away just when it is claimed from."""
    monkeypatch.setattr(claiming, "POLL_S", 0.01)
    apply, away_count = SqlStore.apply, 0

    async def away(store: SqlStore, command: Command[Any]) -> Any:
        nonlocal away_count
        if isinstance(command, ClaimRuns) and command.lane == "aside" and away_count < 9:
            away_count += 1
            raise DatabaseUnavailable({"database": "away"})
        return await apply(store, command)

    async with no_op(url) as hw, asyncio.timeout(60):
        monkeypatch.setattr(SqlStore, "apply", away)
        assert await (await hw.start("work", lane="aside")).result() == 0
    assert away_count == 9
