"""Runs in lanes that no registered job names start as soon as runs in other lanes."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.protocol import Command
from headway.core.command.run.claim import ClaimRuns
from headway.core.command.run.submit import Submit
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import Key, LaneName, RunId
from headway.services.engine import claimer
from headway.services.submit import run_watcher
from tests.engine.scenes import open_bare_store

pytestmark = pytest.mark.backend("sqlite")
HOUR_S = 3_600


@pytest.fixture(autouse=True)
def no_polls_of_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lanes are polled only once, when the engine starts."""
    monkeypatch.setattr(claimer, "ALL_LANES_POLL_S", HOUR_S)


def headway_with_job(url: str) -> Headway:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, number: int = 0) -> int:
        await ctx.sleep(0)
        return number

    return hw


@pytest.mark.proves("R1.3", "R1.4")
async def test_runs_in_an_unnamed_lane_start_at_once_and_one_by_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls are an hour apart; the lane has one slot."""
    monkeypatch.setattr(claimer, "POLL_S", HOUR_S)
    async with headway_with_job(url) as hw, asyncio.timeout(60):
        for _ in range(2):
            starts = (hw.start("work", lane="subagent", params={"number": n}) for n in range(3))
            runs = await asyncio.gather(*starts)
            assert [await run.result() for run in runs] == [0, 1, 2]


@pytest.mark.proves("R1.3", "R1.4")
@pytest.mark.parametrize("lane_count", [2, claimer.EXTRA_LANE_COUNT_MAX + 2])
async def test_runs_in_many_unnamed_lanes_do_not_wait_for_each_other(
    url: str, monkeypatch: pytest.MonkeyPatch, lane_count: int
) -> None:
    """There may be more lanes than one poll covers, and one transaction may accept all runs."""
    monkeypatch.setattr(claimer, "POLL_S", HOUR_S)
    async with headway_with_job(url) as hw, asyncio.timeout(60):
        for _ in range(2):
            lanes = [f"lane-{number}" for number in range(lane_count)]
            runs = await asyncio.gather(*(hw.start("work", lane=lane) for lane in lanes * 3))
            assert [await run.result() for run in runs] == [0] * 3 * lane_count


@pytest.mark.proves("R1.3")
async def test_an_unnamed_lane_is_polled_after_its_first_run(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite sends no hints across processes, so the next run must be found by polling."""
    monkeypatch.setattr(claimer, "POLL_S", 0.01)
    monkeypatch.setattr(run_watcher, "POLL_S", 0.01)
    async with open_bare_store(url) as elsewhere, asyncio.timeout(60):
        first, second = (
            Submit(run_id=RunId(key), key=Key(key), job="work", lane=LaneName("aside"))
            for key in ("ann", "ben")
        )
        await elsewhere.apply(first)
        async with headway_with_job(url) as hw:
            await hw.run(first.run_id).result()
            await elsewhere.apply(second)
            await hw.run(second.run_id).result()


@pytest.mark.proves("R1.3")
async def test_a_lane_whose_poll_failed_is_polled_in_the_next_round(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database becomes unavailable during the claim."""
    monkeypatch.setattr(claimer, "POLL_S", 0.01)
    apply, error_count = SqlStore.apply, 0

    async def fail_nine_times(store: SqlStore, command: Command[Any]) -> Any:
        nonlocal error_count
        if isinstance(command, ClaimRuns) and "aside" in command.lanes and error_count < 9:
            error_count += 1
            raise DatabaseUnavailable({"database": "unavailable"})
        return await apply(store, command)

    async with headway_with_job(url) as hw, asyncio.timeout(60):
        monkeypatch.setattr(SqlStore, "apply", fail_nine_times)
        assert await (await hw.start("work", lane="aside")).result() == 0
    assert error_count == 9


@pytest.mark.proves("I9")
async def test_a_run_that_cannot_be_read_does_not_stop_other_lanes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row has a value that no version of headway writes."""
    monkeypatch.setattr(claimer, "POLL_S", 0.01)
    broken = RunId("broken")
    async with open_bare_store(url) as elsewhere:
        await elsewhere.apply(
            Submit(run_id=broken, key=Key("k"), job="work", lane=LaneName("main"))
        )
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        database.execute("UPDATE runs SET recovery = 'bogus' WHERE id = 'broken'")
        database.commit()
    async with headway_with_job(url) as hw, asyncio.timeout(60):
        for _ in range(3):
            assert await (await hw.start("work", lane="aside")).result() == 0
