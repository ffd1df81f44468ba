"""The doctor looks while others work: no false alarm, and an end."""

import asyncio

import pytest
import sqlalchemy as sa

from headway import Headway, RunContext
from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.bootstrap import SystemClock
from headway.core.run.admission import OnConflict
from headway.services.upkeep import examination as doctor
from headway.services.upkeep.examination import DoctorProgress, examine

LOOK_COUNT = 3

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I24")
async def test_a_database_at_work_gives_no_false_alarm(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "RUN_COUNT_MAX", 10)
    monkeypatch.setattr(doctor, "EVENT_COUNT_MAX", 25)
    hw, checked = Headway(url), DoctorProgress()
    is_at_work, is_enough = asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        await ctx.progress(page=1)
        await ctx.save_checkpoint({"page": 1})

    async def start_runs() -> None:
        while not is_enough.is_set():
            runs = [
                await hw.start("work", key=f"key-{number % 5}", on_conflict=OnConflict.ENQUEUE)
                for number in range(15)
            ]
            await runs[-1].wait_for_end()
            is_at_work.set()

    async with hw, asyncio.TaskGroup() as group:
        group.create_task(start_runs())
        await is_at_work.wait()
        for _ in range(LOOK_COUNT):
            reader = SqlDoctorReader(hw.store._database)
            found = examine(reader, SystemClock(), checked, lambda: None)
            assert [finding async for finding in found] == []
        is_enough.set()
    assert checked.run_count > LOOK_COUNT
    assert checked.done == checked.total


@pytest.mark.proves("I24")
async def test_the_library_gives_what_is_wrong_as_values(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None: ...

    async with hw:
        run = await hw.start("work", key="ann")
        await run.result()
        well = await hw.doctor()
        assert (well.is_healthy, well.findings, well.run_count, well.lane_count) == (True, (), 1, 3)
        async with hw.store._database.open_write_session() as connection:
            await connection.execute(sa.text("DELETE FROM events WHERE seq = 2"))
            await connection.commit()
        ill = await hw.doctor()
    assert not ill.is_healthy
    assert {finding.promise for finding in ill.findings} >= {"I13"}
    assert ill.violation_count == len(ill.findings)
