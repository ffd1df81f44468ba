"""Executions with a stale claim change no files (I2)."""

import asyncio
from pathlib import Path

import pytest

from headway import Headway, RunNotActive
from headway.core.command.run.claim import ClaimedRun
from headway.core.command.run.record_files import ConfirmOutputPrepared
from headway.core.command.run.settle import Complete
from headway.core.ids import Key
from headway.core.run.run import OnExistingOutput
from headway.services.context.execution import Ending, Execution
from headway.services.context.run_files import RunFiles
from headway.testing import claim_of
from tests.contract.scenes import claim_run, orphan_run, register_instance, start_run
from tests.engine.folders import contents, ledger, parts

pytestmark = pytest.mark.backend("sqlite")


def files_of(hw: Headway, claimed: ClaimedRun) -> RunFiles:
    return RunFiles(Execution(claimed), hw._opened.output)


async def write_file(files: RunFiles, path: str, content: bytes) -> None:
    async with files.open_file(path) as file:
        await file.write(content)


@pytest.mark.proves("I2")
async def test_a_stale_execution_does_not_prepare_the_output_folder_again(
    url: str, tmp_path: Path
) -> None:
    """For example, it waited for the folder while its successor prepared the folder and ran."""
    async with Headway(url) as hw:
        stale = await start_run(hw.store, on_existing_output=OnExistingOutput.DELETE)
        await orphan_run(hw.store, stale.run_id)
        successor = await claim_run(hw.store, await register_instance(hw.store))
        with pytest.raises(RunNotActive):
            await files_of(hw, stale).prepare()
        files = files_of(hw, successor)
        await files.prepare()
        await write_file(files, "1.txt", b"new")
        assert await hw.store.apply(ConfirmOutputPrepared(claim_of(successor)))
        with pytest.raises(RunNotActive):
            await files_of(hw, stale).prepare()
        await files.close()
    assert contents(tmp_path) == {"1.txt": "new"}


@pytest.mark.proves("R1.8")
async def test_a_file_finished_after_its_job_has_ended_is_refused(url: str, tmp_path: Path) -> None:
    """Its part is already removed, so the ledger would list a missing file."""
    async with Headway(url) as hw:
        files = files_of(hw, await start_run(hw.store))
        part = await files.begin_part("1.txt")
        await files.end_parts(is_released=False)
        with pytest.raises(RunNotActive):
            await files.finish_part(part, "1.txt")
        with pytest.raises(RunNotActive):
            await files.begin_part("2.txt")
        assert await ledger(hw.store, tmp_path) == {}
        await files.close()


@pytest.mark.proves("R1.12")
async def test_output_that_was_not_packed_is_not_removed(url: str, tmp_path: Path) -> None:
    """The ending execution stops packing before its cancel is delivered."""
    async with Headway(url) as hw:
        earlier = await start_run(hw.store)
        files = files_of(hw, earlier)
        await write_file(files, "1.txt", b"old")
        await hw.store.apply(Complete(claim_of(earlier)))
        await files.close()
        execution = Execution(
            await start_run(hw.store, on_existing_output=OnExistingOutput.ARCHIVE)
        )
        execution.ending = Ending.SHUTDOWN
        files = RunFiles(execution, hw._opened.output)
        with pytest.raises(asyncio.CancelledError):
            await files.prepare()
        await files.close()
    assert contents(tmp_path) == {"1.txt": "old"}


@pytest.mark.proves("I2")
async def test_a_stale_execution_does_not_remove_the_parts_of_a_later_run(
    url: str, tmp_path: Path
) -> None:
    async with Headway(url) as hw:
        stale = await start_run(hw.store)
        await hw.store.apply(Complete(claim_of(stale)))
        later = files_of(hw, await start_run(hw.store))
        part = await later.begin_part("1.txt")
        assert not await files_of(hw, stale).has_file("1.txt")
        assert any(name.endswith(part.name) for name in parts(tmp_path))
        part.write(b"whole")
        await later.finish_part(part, "1.txt")
        with pytest.raises(RunNotActive):
            await write_file(files_of(hw, stale), "1.txt", b"late")
        await hw._opened.output.clean_up_key(Key("ann"), except_run_id=stale.run_id)
        await later.close()
    assert contents(tmp_path) == {"1.txt": "whole"}
