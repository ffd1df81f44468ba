"""Start on a key that has output asks first: replace, archive or delete it (R1.12)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from headway import Headway, InvalidInput, OnExistingOutput, OutputExists, RunContext, RunFailed
from tests.engine.folders import archives, contents, files_below, ledger, parts, until
from tests.engine.scenes import records_of

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
async def hw(url: str) -> AsyncIterator[Headway]:
    """Its job makes the files that it is told; `ann` has `old/1.txt` and `2.txt` of a first run."""
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext, paths: list[str], content: str = "new") -> list[bool]:
        there = [await ctx.has_file("old/1.txt"), await ctx.has_file("2.txt")]
        for path in paths:
            async with ctx.file(path) as file:
                await file.write(content.encode())
        return there

    @hw.job()
    async def talk(ctx: RunContext) -> None:
        await ctx.log("no files here")

    async with hw:
        params = {"paths": ["old/1.txt", "2.txt"], "content": "old"}
        await (await hw.start("work", key="ann", params=params)).result()
        yield hw


@pytest.mark.proves("R1.12")
async def test_ask_is_the_default_and_writes_nothing(hw: Headway, tmp_path: Path) -> None:
    before = await records_of(hw)
    with pytest.raises(OutputExists) as asked:
        await hw.start("work", key="ann", params={"paths": []})
    assert str(asked.value) == (
        "key 'ann' has output already (2 files, such as '2.txt'); start it with "
        "on_existing_output='replace', 'archive' or 'delete', or continue it"
    )
    assert (asked.value.file_count, asked.value.example) == (2, "2.txt")
    assert await records_of(hw) == before
    assert contents(tmp_path) == {"2.txt": "old", "old/1.txt": "old"}


@pytest.mark.proves("R1.12")
async def test_replace_overwrites_by_name(hw: Headway, tmp_path: Path) -> None:
    run = await hw.start(
        "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output="replace"
    )
    assert await run.result() == [True, True]
    assert contents(tmp_path) == {"2.txt": "new", "old/1.txt": "old"}
    assert (await ledger(hw.store, tmp_path))["2.txt"] == run.id


@pytest.mark.proves("R1.12")
async def test_delete_removes_it_before_the_job_begins(hw: Headway, tmp_path: Path) -> None:
    """And what headway has not made stays where it is."""
    (tmp_path / "data/keys/ann/note.txt").write_text("mine")
    run = await hw.start(
        "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output=OnExistingOutput.DELETE
    )
    assert await run.result() == [False, False]
    assert contents(tmp_path) == {"2.txt": "new", "note.txt": "mine"}
    assert not (tmp_path / "data/keys/ann/old").exists()
    assert await ledger(hw.store, tmp_path) == {"2.txt": run.id}


@pytest.mark.proves("R1.12")
async def test_archive_packs_it_before_the_job_begins(hw: Headway, tmp_path: Path) -> None:
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
        found = {name: packed.read(name) for name in packed.namelist()}
    assert found == {"2.txt": b"old", "old/1.txt": b"old"}
    assert first.stat().st_mode & 0o777 == 0o600
    await until(lambda: not parts(tmp_path))


@pytest.mark.proves("S7")
@pytest.mark.parametrize("existing", ["archive", "delete"])
async def test_a_link_in_place_of_output_is_neither_packed_nor_followed(
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
async def test_what_cannot_be_archived_is_not_removed(hw: Headway, tmp_path: Path) -> None:
    (tmp_path / "data" / "archives").write_text("in the way")
    run = await hw.start(
        "work", key="ann", params={"paths": ["2.txt"]}, on_existing_output="archive"
    )
    with pytest.raises(RunFailed, match=r"NotADirectoryError|FileExistsError"):
        await run.result()
    assert contents(tmp_path) == {"2.txt": "old", "old/1.txt": "old"}


@pytest.mark.proves("R1.12")
async def test_the_choice_waits_with_the_run(hw: Headway, tmp_path: Path) -> None:
    """It is the executor that carries it out, whoever submitted the run."""
    await hw.lanes.set("main", max_concurrent=0)
    run = await hw.start("work", key="ann", params={"paths": []}, on_existing_output="delete")
    assert len(contents(tmp_path)) == 2
    assert (await run.record()).run.on_existing_output == "delete"
    await hw.lanes.set("main", max_concurrent=1)
    assert await run.result() == [False, False]
    assert (await run.record()).run.on_existing_output is None


@pytest.mark.proves("R1.12")
async def test_continue_never_asks_and_takes_no_choice(hw: Headway) -> None:
    run = await hw.continue_("work", key="ann", params={"paths": []})
    assert await run.result() == [True, True]
    with pytest.raises(InvalidInput, match="existing: is for a start"):
        await hw.continue_("work", key="ann", params={"paths": []}, on_existing_output="delete")
    with pytest.raises(InvalidInput, match="existing: must be one of: ask, replace, archive"):
        await hw.start("work", key="ann", params={"paths": []}, on_existing_output="burn")


@pytest.mark.proves("R1.12")
async def test_a_key_without_files_never_asks(hw: Headway, tmp_path: Path) -> None:
    for _ in range(2):
        await (await hw.start("talk", key="bob")).result()
        await (await hw.start("talk")).result()
    assert not (tmp_path / "data/keys/bob").exists()


@pytest.mark.proves("R1.12")
async def test_once_it_is_deleted_a_start_asks_no_more(hw: Headway) -> None:
    await (
        await hw.start("work", key="ann", params={"paths": []}, on_existing_output="delete")
    ).result()
    await (await hw.start("work", key="ann", params={"paths": []})).result()


@pytest.mark.proves("R1.8")
async def test_a_canceled_start_stops_in_the_midst_of_packing(
    hw: Headway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing, may_go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr("headway.adapters.files.archive.CHUNK_BYTE_COUNT", 1)

    class Slow(ZipFile):
        def close(self) -> None:
            loop.call_soon_threadsafe(packing.set)
            asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result()
            super().close()

    monkeypatch.setattr("headway.adapters.files.archive.ZipFile", Slow)
    run = await hw.start("work", key="ann", params={"paths": []}, on_existing_output="archive")
    await packing.wait()
    await run.cancel()
    may_go_on.set()
    await run.wait_for_end()
    assert len(contents(tmp_path)) == 2
