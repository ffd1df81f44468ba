"""Executions whose claim is void come late to files, and change nothing (I2)."""

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
from tests.contract.scenes import claimed_one, instance, orphaned, running
from tests.engine.folders import contents, ledger, parts

pytestmark = pytest.mark.backend("sqlite")


def files_of(hw: Headway, claimed: ClaimedRun) -> RunFiles:
    return RunFiles(Execution(claimed), hw._output)


async def written(files: RunFiles, path: str, content: bytes) -> None:
    async with files.open_file(path) as file:
        await file.write(content)


@pytest.mark.proves("I2")
async def test_a_late_execution_does_not_prepare_what_its_successor_has_prepared(
    url: str, tmp_path: Path
) -> None:
    """It waited for the folder, say, while its successor was there and went on to its job."""
    async with Headway(url) as hw:
        late = await running(hw.store, on_existing_output=OnExistingOutput.DELETE)
        await orphaned(hw.store, late.run_id)
        successor = await claimed_one(hw.store, await instance(hw.store))
        with pytest.raises(RunNotActive):
            await files_of(hw, late).prepare()
        files = files_of(hw, successor)
        await files.prepare()
        await written(files, "1.txt", b"new")
        assert await hw.store.apply(ConfirmOutputPrepared(claim_of(successor)))
        with pytest.raises(RunNotActive):
            await files_of(hw, late).prepare()
        await files.close()
    assert contents(tmp_path) == {"1.txt": "new"}


@pytest.mark.proves("R1.8")
async def test_what_is_finished_after_the_job_has_ended_is_refused(
    url: str, tmp_path: Path
) -> None:
    """Its part is gone by then: the ledger would know a file that is not there."""
    async with Headway(url) as hw:
        files = files_of(hw, await running(hw.store))
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
    """The execution is to end, and packing stops, before the cancel has come through."""
    async with Headway(url) as hw:
        earlier = await running(hw.store)
        files = files_of(hw, earlier)
        await written(files, "1.txt", b"old")
        await hw.store.apply(Complete(claim_of(earlier)))
        await files.close()
        execution = Execution(await running(hw.store, on_existing_output=OnExistingOutput.ARCHIVE))
        execution.ending = Ending.SHUTDOWN
        files = RunFiles(execution, hw._output)
        with pytest.raises(asyncio.CancelledError):
            await files.prepare()
        await files.close()
    assert contents(tmp_path) == {"1.txt": "old"}


@pytest.mark.proves("I2")
async def test_a_late_execution_leaves_the_parts_of_a_later_run_alone(
    url: str, tmp_path: Path
) -> None:
    async with Headway(url) as hw:
        late = await running(hw.store)
        await hw.store.apply(Complete(claim_of(late)))
        later = files_of(hw, await running(hw.store))
        part = await later.begin_part("1.txt")
        assert not await files_of(hw, late).has_file("1.txt")
        assert any(name.endswith(part.name) for name in parts(tmp_path))
        part.write(b"whole")
        await later.finish_part(part, "1.txt")
        with pytest.raises(RunNotActive):
            await written(files_of(hw, late), "1.txt", b"late")
        await hw._output.clean_up_key(Key("ann"), except_run_id=late.run_id)
        await later.close()
    assert contents(tmp_path) == {"1.txt": "whole"}
