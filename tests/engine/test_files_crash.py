"""A process that writes files is killed: no file is lost, partial or left over (R1.8, R1.12)."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from headway import Headway
from headway.core.command.run.cancel import CancelResult
from headway.core.ids import RunId
from headway.core.run.status import RunStatus
from tests.cli.command import environment
from tests.engine.files_worker import PATHS, headway_with_mirror
from tests.engine.folders import archives, contents, ledger, parts, wait_until

pytestmark = pytest.mark.backend("sqlite")
ROOT: Final = Path(__file__).parents[2]


async def run_until_killed(url: str, point: str, *, existing: str = "") -> RunId:
    """Run another process until it kills itself at that point. Return its run."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.engine.files_worker", url, point),
        cwd=ROOT,
        env=environment() | {"TEST_EXISTING": existing},
        stdout=subprocess.PIPE,
    )
    out, _ = await worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    return RunId(out.decode().strip())


def files_of_run(run_id: str) -> dict[str, str]:
    return {path: f"{path} by {run_id}" for path in PATHS}


@pytest.mark.proves("R1.8")
@pytest.mark.parametrize(
    ("point", "whole", "made"),
    [
        ("part", [], list(PATHS)),
        ("entered", [], list(PATHS[1:])),
        ("renamed", [PATHS[0]], list(PATHS[1:])),
    ],
)
async def test_after_a_kill_the_next_execution_finds_a_file_complete_or_absent(
    url: str, tmp_path: Path, point: str, whole: list[str], made: list[str]
) -> None:
    run_id = await run_until_killed(url, point)
    assert list(contents(tmp_path)) == whole
    assert len(parts(tmp_path)) == 1 + (point != "renamed")
    async with headway_with_mirror(url) as hw:
        # Files that were in the ledger at the kill are not written again.
        assert await hw.run(run_id).result() == made
        assert await ledger(hw.store, tmp_path) == dict.fromkeys(PATHS, run_id)
    assert contents(tmp_path) == files_of_run(run_id)
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize("point", ["entered", "renamed", "waits"])
@pytest.mark.parametrize("files", ["keep", "delete"])
async def test_a_cancel_keeps_or_deletes_the_files_of_a_killed_executor(
    url: str, tmp_path: Path, point: str, files: str
) -> None:
    """No process executes the run, so the sweep handles its files, even those not renamed yet."""
    run_id = await run_until_killed(url, point)
    finished = list(PATHS) if point == "waits" else [PATHS[0]]
    async with Headway(url) as hw:  # Without the job, so that the run is not resumed.
        run = hw.run(run_id)
        result = await run.cancel(files=files)
        assert result in (CancelResult.CANCELED, CancelResult.REQUESTED)
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        await wait_until(lambda: not parts(tmp_path))
        remaining = dict.fromkeys(finished, run_id) if files == "keep" else {}
        assert await ledger(hw.store, tmp_path) == remaining
    assert list(contents(tmp_path)) == list(remaining)


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize("point", ["half removed", "removed"])
async def test_an_interrupted_delete_is_completed_by_the_next_process(
    url: str, tmp_path: Path, point: str
) -> None:
    run_id = await run_until_killed(url, point)
    assert len(contents(tmp_path)) == (2 if point == "half removed" else 0)
    async with Headway(url) as hw:
        assert (await hw.run(run_id).wait_for_end()).run.status is RunStatus.CANCELED
        await wait_until(lambda: not parts(tmp_path))
        assert await ledger(hw.store, tmp_path) == {}
    assert contents(tmp_path) == {}
    async with headway_with_mirror(url) as hw:  # Deleted files are fetched again.
        assert await (await hw.continue_("mirror", key="ann")).result() == list(PATHS)


@pytest.mark.proves("R1.12")
async def test_if_a_run_starts_before_the_sweep_it_completes_the_interrupted_delete(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the new run would skip files that are about to be deleted."""
    monkeypatch.setattr("headway.services.engine.engine.FILES_SWEEP_S", 1e6)
    run_id = await run_until_killed(url, "half removed")
    async with headway_with_mirror(url) as hw:
        await hw.run(run_id).wait_for_end()
        successor = await hw.continue_("mirror", key="ann")
        assert await successor.result() == list(PATHS)
        assert await ledger(hw.store, tmp_path) == dict.fromkeys(PATHS, successor.id)
    assert contents(tmp_path) == files_of_run(successor.id)


@pytest.mark.proves("R1.8")
async def test_if_a_run_starts_before_the_sweep_it_completes_the_interrupted_rename(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a later sweep would overwrite a file of the new run."""
    monkeypatch.setattr("headway.services.engine.engine.FILES_SWEEP_S", 1e6)
    run_id = await run_until_killed(url, "entered")
    async with Headway(url) as hw:
        await hw.run(run_id).cancel()
        await hw.run(run_id).wait_for_end()
    assert contents(tmp_path) == {}
    async with headway_with_mirror(url) as hw:
        successor = await hw.continue_("mirror", key="ann")
        assert await successor.result() == list(PATHS[1:])
    assert contents(tmp_path)[PATHS[0]] == f"{PATHS[0]} by {run_id}"


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize("point", ["half packed", "packed", "half removed", "removed"])
async def test_after_a_kill_during_archiving_there_is_one_complete_archive(
    url: str, tmp_path: Path, point: str
) -> None:
    async with headway_with_mirror(url) as hw:
        earlier = await hw.start("mirror", key="ann")
        await earlier.result()
    run_id = await run_until_killed(url, point, existing="archive")
    assert len(archives(tmp_path)) == (point != "half packed")
    async with headway_with_mirror(url) as hw:
        assert await hw.run(run_id).result() == list(PATHS)
        assert await ledger(hw.store, tmp_path) == dict.fromkeys(PATHS, run_id)
    assert contents(tmp_path) == files_of_run(run_id)
    (archive,) = archives(tmp_path)
    with ZipFile(archive) as packed:
        archived = {name: packed.read(name).decode() for name in packed.namelist()}
    assert archived == files_of_run(earlier.id)
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.12")
async def test_output_is_not_archived_again_after_the_job_has_started(
    url: str, tmp_path: Path
) -> None:
    async with headway_with_mirror(url) as hw:
        await (await hw.start("mirror", key="ann")).result()
    run_id = await run_until_killed(url, "waits", existing="archive")
    async with headway_with_mirror(url) as hw:
        assert await hw.run(run_id).result() == []  # All files of the first execution exist.
    assert contents(tmp_path) == files_of_run(run_id)
    assert len(archives(tmp_path)) == 1
