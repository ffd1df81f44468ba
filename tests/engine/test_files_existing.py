"""A start on a key with output requires a choice: replace, archive or delete (R1.12)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from headway import Headway, InvalidInput, OnExistingOutput, OutputExists, RunContext, RunFailed
from tests.engine.folders import archives, contents, files_below, ledger, parts, wait_until
from tests.engine.scenes import records_of

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
async def hw(url: str) -> AsyncIterator[Headway]:
    """Yield a Headway whose key `ann` has the output `old/1.txt` and `2.txt`."""
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, paths: list[str], content: str = "new") -> list[bool]:
        has_files = [await ctx.has_file("old/1.txt"), await ctx.has_file("2.txt")]
        for path in paths:
            async with ctx.file(path) as file:
                await file.write(content.encode())
        return has_files

    @hw.job()
    async def talk(ctx: RunContext) -> None:
        await ctx.log("no files here")

    async with hw:
        params = {"paths": ["old/1.txt", "2.txt"], "content": "old"}
        await (await hw.start("work", key="ann", params=params)).result()
        yield hw


@pytest.mark.proves("R1.12")
async def test_a_start_without_on_existing_output_is_refused_and_writes_nothing(
    hw: Headway, tmp_path: Path
) -> None:
    before = await records_of(hw)
    with pytest.raises(OutputExists) as refused:
        await hw.start("work", key="ann", params={"paths": []})
    assert str(refused.value) == (
        "key 'ann' already has output (2 files, such as '2.txt'); start it with "
        "on_existing_output='replace', 'archive' or 'delete', or continue it"
    )
    assert (refused.value.file_count, refused.value.example) == (2, "2.txt")
    assert await records_of(hw) == before
    assert contents(tmp_path) == {"2.txt": "old", "old/1.txt": "old"}


@pytest.mark.proves("R1.12")
async def test_replace_overwrites_files_of_the_same_name(hw: Headway, tmp_path: Path) -> None:
    run = await hw.start(
        "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output="replace"
    )
    assert await run.result() == [True, True]
    assert contents(tmp_path) == {"2.txt": "new", "old/1.txt": "old"}
    assert (await ledger(hw.store, tmp_path))["2.txt"] == run.id


@pytest.mark.proves("R1.12")
async def test_delete_removes_the_output_before_the_job_starts(hw: Headway, tmp_path: Path) -> None:
    """A file that headway did not create is not removed."""
    (tmp_path / "data/keys/ann/note.txt").write_text("mine")
    run = await hw.start(
        "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output=OnExistingOutput.DELETE
    )
    assert await run.result() == [False, False]
    assert contents(tmp_path) == {"2.txt": "new", "note.txt": "mine"}
    assert not (tmp_path / "data/keys/ann/old").exists()
    assert await ledger(hw.store, tmp_path) == {"2.txt": run.id}


@pytest.mark.proves("R1.12")
async def test_archive_packs_the_output_before_the_job_starts(hw: Headway, tmp_path: Path) -> None:
    run_ids: list[str] = []
    for _ in range(2):
        run = await hw.start(
            "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output="archive"
        )
        assert await run.result() == [False, False]
        assert contents(tmp_path) == {"2.txt": "new"}
        run_ids.append(run.id)
    assert len(archives(tmp_path)) == 2
    (first,) = [path for path in archives(tmp_path) if path.stem.endswith(run_ids[0])]
    with ZipFile(first) as packed:
        assert packed.testzip() is None
        archived = {name: packed.read(name) for name in packed.namelist()}
    assert archived == {"2.txt": b"old", "old/1.txt": b"old"}
    assert first.stat().st_mode & 0o777 == 0o600
    await wait_until(lambda: not parts(tmp_path))


@pytest.mark.proves("S7")
@pytest.mark.parametrize("existing", ["archive", "delete"])
async def test_a_symbolic_link_in_the_output_is_neither_archived_nor_followed(
    hw: Headway, tmp_path: Path, existing: str
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "data/keys/ann"
    outside.mkdir()
    (outside / "1.txt").write_text("untouched")
    (folder / "old/1.txt").unlink()
    (folder / "old").rmdir()
    (folder / "old").symlink_to(outside)
    (folder / "2.txt").unlink()
    (folder / "2.txt").symlink_to(outside / "1.txt")
    await (await hw.start("talk", key="ann", on_existing_output=existing)).result()
    assert files_below(outside) == {"1.txt": "untouched"}
    assert await ledger(hw.store, tmp_path) == {}
    for archive in archives(tmp_path):
        with ZipFile(archive) as packed:
            assert packed.namelist() == []


@pytest.mark.proves("R1.12")
async def test_output_that_cannot_be_archived_is_not_removed(hw: Headway, tmp_path: Path) -> None:
    (tmp_path / "data" / "archives").write_text("in the way")
    run = await hw.start(
        "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output="archive"
    )
    with pytest.raises(RunFailed, match=r"NotADirectoryError|FileExistsError"):
        await run.result()
    assert contents(tmp_path) == {"2.txt": "old", "old/1.txt": "old"}


@pytest.mark.proves("R1.12")
async def test_on_existing_output_is_stored_with_a_queued_run(hw: Headway, tmp_path: Path) -> None:
    """The executor applies the option when the run starts."""
    await hw.lanes.set("main", max_concurrent=0)
    run = await hw.start("work", key="ann", params={"paths": []}, on_existing_output="delete")
    assert len(contents(tmp_path)) == 2
    assert (await run.record()).run.on_existing_output == "delete"
    await hw.lanes.set("main", max_concurrent=1)
    assert await run.result() == [False, False]
    assert (await run.record()).run.on_existing_output is None


@pytest.mark.proves("R1.12")
async def test_continue_keeps_the_output_and_refuses_on_existing_output(hw: Headway) -> None:
    run = await hw.continue_("work", key="ann", params={"paths": []})
    assert await run.result() == [True, True]
    with pytest.raises(InvalidInput, match="on_existing_output cannot be set in the mode"):
        await hw.continue_("work", key="ann", params={"paths": []}, on_existing_output="delete")
    with pytest.raises(
        InvalidInput, match="on_existing_output must be one of: ask, replace, archive"
    ):
        await hw.start("work", key="ann", params={"paths": []}, on_existing_output="burn")


@pytest.mark.proves("R1.12")
async def test_a_key_without_files_does_not_require_on_existing_output(
    hw: Headway, tmp_path: Path
) -> None:
    for _ in range(2):
        await (await hw.start("talk", key="bob")).result()
        await (await hw.start("talk")).result()
    assert not (tmp_path / "data/keys/bob").exists()


@pytest.mark.proves("R1.12")
async def test_after_a_delete_the_next_start_does_not_require_on_existing_output(
    hw: Headway,
) -> None:
    await (
        await hw.start("work", key="ann", params={"paths": []}, on_existing_output="delete")
    ).result()
    await (await hw.start("work", key="ann", params={"paths": []})).result()


@pytest.mark.proves("R1.8")
async def test_a_cancel_stops_the_creation_of_an_archive(
    hw: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing, may_continue = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("headway.adapters.files.archive.CHUNK_BYTE_COUNT", 1)

    class Slow(ZipFile):
        def close(self) -> None:
            loop.call_soon_threadsafe(packing.set)
            asyncio.run_coroutine_threadsafe(may_continue.wait(), loop).result()
            super().close()

    monkeypatch.setattr("headway.adapters.files.archive.ZipFile", Slow)
    run = await hw.start("work", key="ann", params={"paths": []}, on_existing_output="archive")
    await packing.wait()
    await run.cancel()
    may_continue.set()
    await run.wait_for_end()
    assert len(contents(tmp_path)) == 2
