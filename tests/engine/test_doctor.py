"""The doctor examines a database in use: it reports no false alarm, and it ends."""

import asyncio

import pytest
import sqlalchemy as sa

from headway import Headway, RunContext
from headway.adapters.sql.read.read_doctor import SqlDoctorReader
from headway.bootstrap import SystemClock
from headway.core.run.admission import OnConflict
from headway.services.upkeep import examination as doctor
from headway.services.upkeep.examination import DoctorProgress, examine

EXAMINATION_COUNT = 3

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I24")
async def test_the_doctor_reports_no_violation_while_the_database_is_in_use(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "RUN_COUNT_MAX", 10)
    monkeypatch.setattr(doctor, "EVENT_COUNT_MAX", 25)
    hw, progress = Headway(url), DoctorProgress()
    has_run_jobs, is_enough = asyncio.Event(), asyncio.Event()

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
            has_run_jobs.set()

    async with hw, asyncio.TaskGroup() as group:
        group.create_task(start_runs())
        await has_run_jobs.wait()
        for _ in range(EXAMINATION_COUNT):
            reader = SqlDoctorReader(hw.store._database)
            findings = examine(reader, SystemClock(), progress, lambda: None)
            assert [finding async for finding in findings] == []
        is_enough.set()
    assert progress.run_count > EXAMINATION_COUNT
    assert progress.done == progress.total


@pytest.mark.proves("I24")
async def test_doctor_returns_its_findings_as_values(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None: ...

    async with hw:
        run = await hw.start("work", key="ann")
        await run.result()
        healthy_report = await hw.doctor()
        assert (
            healthy_report.is_healthy,
            healthy_report.findings,
            healthy_report.run_count,
            healthy_report.lane_count,
        ) == (True, (), 1, 3)
        async with hw.store._database.open_write_session() as connection:
            await connection.execute(sa.text("DELETE FROM events WHERE seq = 2"))
            await connection.commit()
        broken_report = await hw.doctor()
    assert not broken_report.is_healthy
    assert {finding.promise for finding in broken_report.findings} >= {"I13"}
    assert broken_report.violation_count == len(broken_report.findings)
