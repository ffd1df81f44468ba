"""Cancel and files: Continue skips the kept files and fetches the deleted ones again (R1.8)."""

import asyncio
import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headway import Backoff, BlockingRunContext, Headway, RunContext
from headway.adapters.files.folder import DataFolder
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.command.run.settle import Complete
from headway.core.ids import Key
from headway.core.run.events import EventType
from headway.core.run.run import FilesOnCancel
from headway.core.run.status import RunStatus
from headway.services.context import execution
from headway.services.context import output_files as output
from headway.services.engine import engine
from tests.engine.folders import contents, ledger, parts, wait_until

pytestmark = pytest.mark.backend("sqlite")


class Mirror:
    """A job that fetches the missing pages in order, and blocks in the last one if `stays`."""

    def __init__(self, hw: Headway) -> None:
        self.fetched: list[str] = []
        self.is_in_last = asyncio.Event()
        self.pages = 3
        hw.job(name="mirror")(self.run)

    async def run(self, ctx: RunContext, stays: bool = False) -> int:
        for page in range(1, self.pages + 1):
            path = f"pages/{page}.txt"
            if await ctx.has_file(path):
                continue
            async with ctx.file(path) as file:
                await file.write(f"{page} of {ctx.run_id}".encode())
                await file.flush()
                if stays and page == self.pages:
                    self.is_in_last.set()
                    await asyncio.Event().wait()
            self.fetched.append(path)
        return len(self.fetched)


@pytest.mark.proves("R1.8")
async def test_cancel_with_keep_removes_only_unfinished_files_and_continue_skips_finished_ones(
    url: str, tmp_path: Path
) -> None:
    hw = Headway(url)
    mirror = Mirror(hw)
    async with hw:
        run = await hw.start("mirror", key="ann", params={"stays": True})
        await mirror.is_in_last.wait()
        assert len(parts(tmp_path)) == 2
        assert await run.cancel() is CancelResult.REQUESTED
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        await wait_until(lambda: not parts(tmp_path))
        assert list(contents(tmp_path)) == ["pages/1.txt", "pages/2.txt"]
        successor = await hw.continue_("mirror", key="ann")
        await successor.result()
        assert mirror.fetched == ["pages/1.txt", "pages/2.txt", "pages/3.txt"]
        assert await ledger(hw.store, tmp_path) == {
            "pages/1.txt": run.id,
            "pages/2.txt": run.id,
            "pages/3.txt": successor.id,
        }


@pytest.mark.proves("R1.12")
async def test_cancel_with_delete_removes_only_the_files_of_the_canceled_run(
    url: str, tmp_path: Path
) -> None:
    hw = Headway(url)
    mirror = Mirror(hw)
    async with hw:
        mirror.pages = 1
        first = await hw.start("mirror", key="ann")
        await first.result()
        mirror.pages = 3
        second = await hw.continue_("mirror", key="ann", params={"stays": True})
        await mirror.is_in_last.wait()
        assert list(contents(tmp_path)) == ["pages/1.txt", "pages/2.txt"]
        await second.cancel(files="delete")
        assert (await second.wait_for_end()).run.status is RunStatus.CANCELED
        # The files are deleted before the run is canceled.
        assert contents(tmp_path) == {"pages/1.txt": f"1 of {first.id}"}
        assert await ledger(hw.store, tmp_path) == {"pages/1.txt": first.id}
        mirror.fetched.clear()
        await (await hw.continue_("mirror", key="ann")).result()
        assert mirror.fetched == ["pages/2.txt", "pages/3.txt"]
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.8", "R1.12")
async def test_a_run_that_ends_before_the_cancel_reaches_it_keeps_its_files(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, apply = Headway(url), SqlStore.apply

    async def cancel_at_the_end(store: SqlStore, command: Command[Any]) -> Any:
        if isinstance(command, Complete):
            request = RequestCancel(run_id=command.claim.run_id, files=FilesOnCancel.DELETE)
            assert await apply(store, request) is CancelResult.REQUESTED
        return await apply(store, command)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            await file.write(b"whole")

    async with hw:
        monkeypatch.setattr(SqlStore, "apply", cancel_at_the_end)
        run = await hw.start("work", key="ann")
        assert (await run.wait_for_end()).run.status is RunStatus.SUCCEEDED
        await wait_until(lambda: not parts(tmp_path))
    assert contents(tmp_path) == {"1.txt": "whole"}


@pytest.mark.proves("R1.12")
async def test_a_forced_cancel_deletes_files_after_the_job_has_stopped(
    url: str, tmp_path: Path
) -> None:
    """Files are not deleted while the job still runs, and the job can create no more."""
    hw, made, release = Headway(url), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def work(ctx: BlockingRunContext) -> None:
        with ctx.file("1.txt") as file:
            file.write(b"whole")
        loop.call_soon_threadsafe(made.set)
        release.wait()
        with ctx.file("2.txt") as file:
            file.write(b"late")

    async with hw, Headway(url) as other:  # The other one sweeps too.
        run = await hw.start("work", key="ann")
        await made.wait()
        await run.cancel(files="delete", grace_s=0)
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        for headway in (hw, other):
            await headway._opened.output.sweep()
        assert contents(tmp_path) == {"1.txt": "whole"}
        release.set()
        await wait_until(lambda: not parts(tmp_path))
        assert await ledger(hw.store, tmp_path) == {}
    assert contents(tmp_path) == {}


@pytest.mark.proves("R1.12")
async def test_the_sweep_deletes_the_files_of_a_canceled_run_that_no_instance_holds(
    url: str, tmp_path: Path
) -> None:
    hw = Headway(url)

    @hw.job(retries=1, backoff=Backoff(base_s=1e6, cap_s=1e6))
    async def work(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            await file.write(b"whole")
        raise ConnectionError

    async with hw:
        run = await hw.start("work", key="ann")
        async for event in run.events():
            if event.type == EventType.RETRIED:
                break
        assert list(contents(tmp_path)) == ["1.txt"]
        assert await run.cancel(files="delete") is CancelResult.CANCELED
        await wait_until(lambda: not parts(tmp_path))
        assert await ledger(hw.store, tmp_path) == {}
    assert contents(tmp_path) == {}


@pytest.mark.proves("R1.12")
async def test_folders_that_cannot_be_removed_do_not_block_the_sweep(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four such folders (of parked runs, or of another database) are swept two at a time."""
    monkeypatch.setattr(engine, "FILES_SWEEP_S", 1e6)
    monkeypatch.setattr(output, "BATCH_SIZE", 2)
    for name in ("0001", "0002", "0003", "0004"):
        (tmp_path / "data" / "parts" / name).mkdir(parents=True)
    hw = Headway(url)

    @hw.job(retries=1, backoff=Backoff(base_s=1e6, cap_s=1e6))
    async def work(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            await file.write(b"whole")
        raise ConnectionError

    async with hw:
        for key in ("ann", "bob"):  # After the last folder, the sweep starts again at the first.
            run = await hw.start("work", key=key)
            async for event in run.events():
                if event.type == EventType.RETRIED:
                    break
            assert list(contents(tmp_path, key=key)) == ["1.txt"]
            assert await run.cancel(files="delete") is CancelResult.CANCELED
            for _ in range(3):
                await hw._opened.output.sweep()
            assert contents(tmp_path, key=key) == {}
    assert len(parts(tmp_path)) == 4


@pytest.mark.proves("R1.12")
async def test_two_processes_never_remove_files_of_a_key_at_once(url: str, tmp_path: Path) -> None:
    """Otherwise the slower one could remove files that a new run has created."""
    hw = Headway(url)
    mirror = Mirror(hw)
    async with hw:
        run = await hw.start("mirror", key="ann", params={"stays": True})
        await mirror.is_in_last.wait()
        another = DataFolder(tmp_path / "data").hold_key(Key("ann"))
        assert another is not None
        await run.cancel(files="delete")
        with pytest.raises(TimeoutError):
            await run.result(timeout_s=0.2)
        assert len(contents(tmp_path)) == 2
        another.close()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert contents(tmp_path) == {}


@pytest.mark.proves("R1.6")
async def test_canceling_a_queued_run_touches_no_file(url: str, tmp_path: Path) -> None:
    hw = Headway(url)
    Mirror(hw)
    async with hw:
        await (await hw.start("mirror", key="ann")).result()
        await hw.lanes.set("main", max_concurrent=0)
        run = await hw.start("mirror", key="ann", on_existing_output="delete")
        assert await run.cancel(files="delete") is CancelResult.CANCELED
        await hw._opened.output.sweep()
    assert len(contents(tmp_path)) == 3


@pytest.mark.proves("R1.12")
async def test_an_instance_deletes_no_files_in_the_data_directory_of_another_instance(
    url: str, tmp_path: Path
) -> None:
    """As on another host: only an instance with access to the folder deletes the files."""
    hw = Headway(url)
    mirror = Mirror(hw)
    elsewhere = Headway(url, data=tmp_path / "elsewhere")
    async with hw:
        run = await hw.start("mirror", key="ann", params={"stays": True})
        await mirror.is_in_last.wait()
    assert len(contents(tmp_path)) == 2  # The run was released at the stop; no instance holds it.
    async with elsewhere:
        await elsewhere.run(run.id).cancel(files="delete")
        await elsewhere._opened.output.sweep()
    assert len(contents(tmp_path)) == 2
    async with Headway(url):
        await wait_until(lambda: not parts(tmp_path))
    assert contents(tmp_path) == {}


@contextmanager
def hold_write_lock(url: str) -> Iterator[None]:
    """Hold the write lock, as another process does during a long write."""
    with Path(f"{url.removeprefix('sqlite:///')}.lock").open("r+b") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


@pytest.mark.proves("R1.8", "R1.12")
async def test_a_job_that_returns_after_a_cancel_is_canceled_despite_a_slow_write(
    url: str, tmp_path: Path
) -> None:
    """The grace period applies to the job, not to the write that stores how the run ended."""
    hw, denied, go = Headway(url), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> str:
        async with ctx.file("1.txt") as file:
            await file.write(b"whole")
        await ctx.interrupt({"go": "on?"})
        denied.set()
        await go.wait()
        return "done"

    async with hw:
        run = await hw.start("work", key="ann")
        while not await run.interrupts():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await run.cancel(files="delete")
        await denied.wait()
        with hold_write_lock(url):
            go.set()
            await asyncio.sleep(1.5 * execution.DENIED_GRACE_S)
        ended = await run.wait_for_end()
        assert (ended.run.status, ended.result) == (RunStatus.CANCELED, None)
        await wait_until(lambda: contents(tmp_path) == {})
