"""Files of runs: complete or absent, in the folder of their key, and in the ledger (R1.8, S7)."""

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headway import BlockingRunContext, Headway, InvalidInput, RunContext, RunFailed
from headway.core.command.admin.instance import DeclareDead, ReleaseOrphan
from headway.core.errors import RunNotActive
from headway.core.run.status import RunStatus
from headway.services.blocking_calls import run_in_thread
from tests.engine.folders import contents, files_below, ledger, modes, parts, wait_until

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("R1.8")
async def test_a_file_is_visible_only_when_it_is_complete(url: str, tmp_path: Path) -> None:
    hw = Headway(url)
    seen: list[Any] = []

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("photos/1.jpg") as file:
            await file.write(b"first ")
            await file.write(memoryview(b"second"))
            await file.flush()
            seen.append((contents(tmp_path), parts(tmp_path), await ctx.has_file("photos/1.jpg")))
        seen.append((contents(tmp_path), parts(tmp_path), await ctx.has_file("photos/1.jpg")))

    async with hw:
        run = await hw.start("work", key="ann")
        await run.result()
        assert await ledger(hw.store, tmp_path) == {"photos/1.jpg": run.id}
    part = f"{run.id}/1-1-1.jpg.part"
    assert seen == [
        ({}, [run.id, part], False),
        ({"photos/1.jpg": "first second"}, [run.id], True),
    ]
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.8")
async def test_an_error_in_the_file_block_keeps_the_previous_file(url: str, tmp_path: Path) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("1.jpg") as file:
            await file.write(b"whole")
        with suppress(ZeroDivisionError):
            async with ctx.file("1.jpg") as file:
                await file.write(b"half")
                await file.flush()
                raise ZeroDivisionError
        assert parts(tmp_path) == [ctx.run_id]

    async with hw:
        await (await hw.start("work", key="ann")).result()
    assert contents(tmp_path) == {"1.jpg": "whole"}


@pytest.mark.proves("R1.8")
async def test_large_and_empty_files_are_written_completely(url: str, tmp_path: Path) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("large") as file:
            for _ in range(100):
                await file.write(b"x" * 100_000)
        async with ctx.file("empty"):
            pass

    async with hw:
        await (await hw.start("work", key="ann")).result()
    sizes = {path: len(text) for path, text in contents(tmp_path).items()}
    assert sizes == {"large": 10_000_000, "empty": 0}


@pytest.mark.proves("R1.8")
async def test_a_plain_function_writes_files(url: str, tmp_path: Path) -> None:
    hw = Headway(url)

    @hw.job()
    def work(ctx: BlockingRunContext) -> list[bool]:
        before = ctx.has_file("a/1.txt")
        with ctx.file("a/1.txt") as file:
            file.write(b"whole")
        with suppress(ZeroDivisionError), ctx.file("a/2.txt") as file:
            file.write(b"half")
            raise ZeroDivisionError
        assert parts(tmp_path) == [ctx.run_id]
        return [before, ctx.has_file("a/1.txt")]

    async with hw:
        run = await hw.start("work", key="ann")
        assert await run.result() == [False, True]
        assert await ledger(hw.store, tmp_path) == {"a/1.txt": run.id}
    assert contents(tmp_path) == {"a/1.txt": "whole"}
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.8")
async def test_a_plain_function_that_is_cancelled_leaves_no_partial_file(
    url: str, tmp_path: Path
) -> None:
    hw, started = Headway(url), asyncio.Event()
    loop = asyncio.get_running_loop()

    @hw.job()
    def work(ctx: BlockingRunContext) -> None:
        with ctx.file("1.txt") as file:
            file.write(b"half")
            loop.call_soon_threadsafe(started.set)
            while True:
                file.write(b".")

    async with hw:
        run = await hw.start("work", key="ann")
        await started.wait()
        await run.cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert (contents(tmp_path), parts(tmp_path)) == ({}, [])


@pytest.mark.proves("S10")
async def test_only_the_owner_can_access_folders_and_files(url: str, tmp_path: Path) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("a/b/1.txt") as file:
            await file.write(b"secret")
            assert modes(tmp_path / "data") == {(True, 0o700), (False, 0o600)}

    before = os.umask(0)
    try:
        async with hw:
            await (await hw.start("work", key="ann")).result()
    finally:
        os.umask(before)
    assert modes(tmp_path / "data") == {(True, 0o700), (False, 0o600)}


@pytest.mark.proves("S7")
@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "x\0", "x.part", "nul", "x" * 256])
async def test_an_invalid_file_path_is_refused_and_nothing_is_created(
    url: str, tmp_path: Path, path: str
) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        with pytest.raises(InvalidInput, match=r"^file "):
            await ctx.has_file(path)
        async with ctx.file(path) as file:
            await file.write(b"out")

    async with hw:
        with pytest.raises(RunFailed, match=r"InvalidInput: file "):
            await (await hw.start("work", key="ann")).result()
    assert not (tmp_path / "data").exists()


@pytest.mark.proves("S7")
@pytest.mark.parametrize("path", ["link/x", "link", "a/link/x", "file/x", "folder"])
async def test_a_symbolic_link_is_replaced_and_a_path_through_one_is_refused(
    url: str, tmp_path: Path, path: str
) -> None:
    hw, outside = Headway(url), tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("untouched")
    folder = tmp_path / "data" / "keys" / "ann"
    (folder / "a").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "a" / "link").symlink_to(outside)
    (folder / "file").write_text("in the way")
    (folder / "folder").mkdir()

    @hw.job()
    async def work(ctx: RunContext) -> bool:
        async with ctx.file(path) as file:
            await file.write(b"inside")
        return await ctx.has_file(path)

    async with hw:
        run = await hw.start("work", key="ann")
        if path == "link":  # The link itself is replaced; its target is not.
            assert await run.result()
            assert (folder / "link").read_text() == "inside"
        else:
            with pytest.raises(RunFailed, match=r"leads through|is a folder"):
                await run.result()
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("x", "untouched")]
    assert parts(tmp_path) == []


@pytest.mark.proves("S7")
async def test_every_key_has_its_own_folder(url: str, tmp_path: Path) -> None:
    hw = Headway(url)
    keys = ["ann", "Ann", "..", "a/b", "../../x", "ключ 🔑", "k" * 255]

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("key.txt") as file:
            await file.write(ctx.key.encode())

    async with hw:
        for key in keys:
            await (await hw.start("work", key=key)).result()
    files = files_below(tmp_path / "data" / "keys")
    assert sorted(files.values()) == sorted(keys)
    assert {path.count("/") for path in files} == {1}


@pytest.mark.proves("S10")
async def test_files_are_stored_in_the_configured_directory(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_DATA", str(tmp_path / "set"))
    for hw, folder in (
        (Headway(url), "set"),
        (Headway(url, data=tmp_path / "argument"), "argument"),
    ):

        @hw.job()
        async def work(ctx: RunContext) -> None:
            async with ctx.file("1.txt"):
                pass

        async with hw:
            await (await hw.start("work", key=folder)).result()
        assert (tmp_path / folder / "keys" / folder / "1.txt").exists()


@pytest.mark.proves("R1.8")
async def test_writing_str_instead_of_bytes_to_a_file_is_refused(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            await file.write("text")  # type: ignore[arg-type]

    async with hw:
        with pytest.raises(RunFailed, match="data must be bytes; encode text first"):
            await (await hw.start("work", key="ann")).result()


@pytest.mark.proves("I2")
async def test_a_file_written_under_a_stale_claim_is_not_published(
    url: str, tmp_path: Path
) -> None:
    """A process that was declared dead continues: its file is refused, the newer one stays."""
    hw, other = Headway(url), Headway(url)
    written, release, refused = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @hw.job()
    async def work(ctx: RunContext) -> None:
        try:
            async with ctx.file("1.txt") as file:
                await file.write(b"old")
                written.set()
                while not release.is_set():
                    try:
                        await release.wait()
                    except asyncio.CancelledError:  # It ignores the cancel.
                        continue
        except RunNotActive:
            refused.set()
            raise

    @other.job(name="work")
    async def again(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            await file.write(b"new")

    async with hw:
        run = await hw.start("work", key="ann")
        await written.wait()
        (holder,) = await hw.store.runs.instances()
        await hw.store.apply(DeclareDead(holder.id, is_proven=True))
        hw._jobs.clear()  # So that the other instance resumes the run.
        assert await hw.store.apply(ReleaseOrphan(run.id, holder.id))
        async with other:
            await other.run(run.id).result()
            release.set()
            await refused.wait()
            assert await ledger(other.store, tmp_path) == {"1.txt": run.id}
    assert contents(tmp_path) == {"1.txt": "new"}
    async with other:  # The next sweep leaves no part.
        await wait_until(lambda: not parts(tmp_path))


@pytest.mark.proves("I2")
async def test_a_stale_claim_does_not_remove_the_partial_files_of_its_successor(
    url: str, tmp_path: Path
) -> None:
    hw, other = Headway(url), Headway(url)
    begun, release = asyncio.Event(), asyncio.Event()
    is_written, may_finish = asyncio.Event(), asyncio.Event()
    has_file_results: list[bool] = []

    @hw.job()
    async def work(ctx: RunContext) -> None:
        begun.set()
        while not release.is_set():
            with suppress(asyncio.CancelledError):  # It ignores the cancel.
                await release.wait()
        has_file_results.append(await ctx.has_file("1.txt"))  # Its first file call, and a late one.
        may_finish.set()

    @other.job(name="work")
    async def again(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            await file.write(b"new")
            await file.flush()
            is_written.set()
            await may_finish.wait()
            assert parts(tmp_path) == [ctx.run_id, f"{ctx.run_id}/2-1-1.txt.part"]

    async with hw:
        run = await hw.start("work", key="ann")
        await begun.wait()
        (holder,) = await hw.store.runs.instances()
        await hw.store.apply(DeclareDead(holder.id, is_proven=True))
        hw._jobs.clear()
        assert await hw.store.apply(ReleaseOrphan(run.id, holder.id))
        async with other:
            await is_written.wait()
            release.set()
            await other.run(run.id).result()
    assert (has_file_results, contents(tmp_path)) == ([False], {"1.txt": "new"})


@pytest.mark.proves("R1.8")
async def test_a_cancelled_caller_waits_for_its_thread_to_end() -> None:
    """Otherwise the thread would change files after their lock was released."""
    begun, release = threading.Event(), threading.Event()
    ended: list[str] = []

    def work() -> None:
        begun.set()
        release.wait()
        ended.append("thread")

    async def call() -> None:
        try:
            await run_in_thread(work)
        finally:
            ended.append("caller")

    task = asyncio.create_task(call())
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0.05)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["thread", "caller"]


@pytest.mark.proves("R1.8")
async def test_a_task_that_outlives_its_job_publishes_no_file(url: str, tmp_path: Path) -> None:
    hw, begun, release = Headway(url), asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def write(ctx: RunContext) -> None:
        async with ctx.file("1.txt") as file:
            begun.set()
            await release.wait()
            await file.write(b"late")

    @hw.job()
    async def work(ctx: RunContext) -> None:
        tasks.append(asyncio.create_task(write(ctx)))
        await begun.wait()

    async with hw:
        await (await hw.start("work", key="ann")).result()
        release.set()
        with pytest.raises(RunNotActive):
            await tasks[0]
        assert await ledger(hw.store, tmp_path) == {}
    assert (contents(tmp_path), parts(tmp_path)) == ({}, [])


@pytest.mark.proves("I8")
async def test_a_task_that_outlives_its_job_cannot_begin_a_file(url: str, tmp_path: Path) -> None:
    """The job itself has used no files."""
    hw = Headway(url)
    has_ended = asyncio.Event()
    leftovers: list[asyncio.Task[bool]] = []

    @hw.job()
    async def work(ctx: RunContext) -> None:
        async def look_later() -> bool:
            await has_ended.wait()
            return await ctx.has_file("late.jpg")

        leftovers.append(asyncio.create_task(look_later()))

    async with hw:
        await (await hw.start("work", key="ann")).result()
        has_ended.set()
        with pytest.raises(RunNotActive):
            await leftovers[0]
        assert hw._open is not None
        assert not hw._open.output.open_runs
    assert parts(tmp_path) == []
