"""A full disk: the write is refused, and the store continues when there is space again."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.command.run.submit import Accepted
from headway.core.errors import StoreFailed
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from headway.testing import a_submit
from tests.cli.disk import SmallDisk, limited_disk, mounted_disk
from tests.engine.scenes import open_bare_store, records

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture(params=["no space left", "disk error"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    if request.param == "no space left":
        with mounted_disk(folder, byte_count=16 << 20) as mounted:
            yield mounted
    else:
        with limited_disk(folder) as limited:
            yield limited


async def submit(store: SqlStore, prefix: str, count: int) -> list[str]:
    """Submit runs and return the ids of the accepted ones; the disk refused the others."""
    results = await asyncio.gather(
        *(
            store.apply(a_submit(f"{prefix}-{number}", run_id=f"{prefix}-{number}"))
            for number in range(count)
        ),
        return_exceptions=True,
    )
    assert all(isinstance(result, Accepted | StoreFailed) for result in results), results
    return [result.run_id for result in results if isinstance(result, Accepted)]


async def ids_of(store: SqlStore) -> list[str]:
    return [record.run.id for record in await records(store)]


@pytest.mark.proves("I3")
async def test_a_full_disk_refuses_writes_and_keeps_accepted_runs(
    disk: SmallDisk,
) -> None:
    url = f"sqlite:///{disk.folder}/headway.db"
    store = await open_store([url])
    try:
        accepted = await submit(store, "before", 50)
        assert len(accepted) == 50
        disk.fill()
        with pytest.raises(StoreFailed, match="nothing was saved"):
            await store.apply(a_submit("refused", run_id="refused"))
        assert await submit(store, "during", 20) == []
        assert await ids_of(store) == accepted
        disk.free()
        accepted += await submit(store, "after", 50)
        assert len(accepted) == 100
        assert await ids_of(store) == accepted
    finally:
        await store.close()
    async with open_bare_store(url) as store:
        assert await ids_of(store) == accepted
        page = await store.events.events(after_seq=0, limit=1_000)
        assert [event.seq for event in page.events] == list(range(1, 101))
        assert {event.type for event in page.events} == {EventType.STATE_CHANGED}
    with closing(sqlite3.connect(disk.folder / "headway.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.proves("I20")
async def test_a_result_that_a_full_disk_refuses_is_stored_once_there_is_space(
    disk: SmallDisk, caplog: pytest.LogCaptureFixture
) -> None:
    hw = Headway(f"sqlite:///{disk.folder}/headway.db")

    @hw.job()
    async def work(ctx: RunContext) -> str:
        disk.fill()
        return "done"

    async with hw:
        run = await hw.start("work")
        while "database_unavailable" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await run.status() is RunStatus.RUNNING
        disk.free()
        assert await run.result() == "done"
