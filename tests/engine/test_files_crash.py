"""A process that works with files is killed: nothing is lost, half or left (R1.8, R1.12)."""

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
from tests.engine.folders import archives, contents, ledger, parts, until

pytestmark = pytest.mark.backend("sqlite")
ROOT: Final = Path(__file__).parents[2]


async def killed_at(url: str, point: str, *, existing: str = "") -> RunId:
    """Let another process work until it is killed there; the run that it has left."""
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


def made_by(run_id: str) -> dict[str, str]:
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
async def test_killed_while_a_file_is_made_the_next_execution_finds_it_whole_or_not_there(
    url: str, tmp_path: Path, point: str, whole: list[str], made: list[str]
) -> None:
    run_id = await killed_at(url, point)
    assert list(contents(tmp_path)) == whole
    assert len(parts(tmp_path)) == 1 + (point != "renamed")
    async with headway_with_mirror(url) as hw:
        # What the ledger knew of when the process was killed is not made again.
        assert await hw.run(run_id).result() == made
        assert await ledger(hw.store, tmp_path) == dict.fromkeys(PATHS, run_id)
    assert contents(tmp_path) == made_by(run_id)
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize("point", ["entered", "renamed", "waits"])
@pytest.mark.parametrize("files", ["keep", "delete"])
async def test_canceled_after_its_executor_was_killed_its_files_are_kept_or_deleted(
    url: str, tmp_path: Path, point: str, files: str
) -> None:
    """Nobody executes the run: the sweep does it, also for what was not yet renamed."""
    run_id = await killed_at(url, point)
    finished = list(PATHS) if point == "waits" else [PATHS[0]]
    async with Headway(url) as hw:  # Without the job, so that nobody goes on with it.
        run = hw.run(run_id)
        answer = await run.cancel(files=files)
        assert answer in (CancelResult.CANCELED, CancelResult.REQUESTED)
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
        await until(lambda: not parts(tmp_path))
        left = dict.fromkeys(finished, run_id) if files == "keep" else {}
        assert await ledger(hw.store, tmp_path) == left
    assert list(contents(tmp_path)) == list(left)


@pytest.mark.proves("R1.12")
@pytest.mark.parametrize("point", ["half removed", "removed"])
async def test_killed_while_it_deletes_the_rest_is_deleted_by_whoever_comes_next(
    url: str, tmp_path: Path, point: str
) -> None:
    run_id = await killed_at(url, point)
    assert len(contents(tmp_path)) == (2 if point == "half removed" else 0)
    async with Headway(url) as hw:
        assert (await hw.run(run_id).wait_for_end()).run.status is RunStatus.CANCELED
        await until(lambda: not parts(tmp_path))
        assert await ledger(hw.store, tmp_path) == {}
    assert contents(tmp_path) == {}
    async with headway_with_mirror(url) as hw:  # After delete it is fetched again.
        assert await (await hw.continue_("mirror", key="ann")).result() == list(PATHS)


@pytest.mark.proves("R1.12")
async def test_a_run_that_comes_before_the_sweep_deletes_what_was_to_be_deleted(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would take for there what is about to go."""
    monkeypatch.setattr("headway.services.engine.engine.FILES_SWEEP_S", 1e6)
    run_id = await killed_at(url, "half removed")
    async with headway_with_mirror(url) as hw:
        await hw.run(run_id).wait_for_end()
        successor = await hw.continue_("mirror", key="ann")
        assert await successor.result() == list(PATHS)
        assert await ledger(hw.store, tmp_path) == dict.fromkeys(PATHS, successor.id)
    assert contents(tmp_path) == made_by(successor.id)


@pytest.mark.proves("R1.8")
async def test_a_run_that_comes_before_the_sweep_renames_what_was_to_be_renamed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a later sweep would put it in place of what the new run has made."""
    monkeypatch.setattr("headway.services.engine.engine.FILES_SWEEP_S", 1e6)
    run_id = await killed_at(url, "entered")
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
async def test_killed_while_it_archives_the_output_is_in_one_archive_whole(
    url: str, tmp_path: Path, point: str
) -> None:
    async with headway_with_mirror(url) as hw:
        earlier = await hw.start("mirror", key="ann")
        await earlier.result()
    run_id = await killed_at(url, point, existing="archive")
    assert len(archives(tmp_path)) == (point != "half packed")
    async with headway_with_mirror(url) as hw:
        assert await hw.run(run_id).result() == list(PATHS)
        assert await ledger(hw.store, tmp_path) == dict.fromkeys(PATHS, run_id)
    assert contents(tmp_path) == made_by(run_id)
    (archive,) = archives(tmp_path)
    with ZipFile(archive) as packed:
        found = {name: packed.read(name).decode() for name in packed.namelist()}
    assert found == made_by(earlier.id)
    assert parts(tmp_path) == []


@pytest.mark.proves("R1.12")
async def test_output_is_not_archived_again_after_the_job_has_begun(
    url: str, tmp_path: Path
) -> None:
    async with headway_with_mirror(url) as hw:
        await (await hw.start("mirror", key="ann")).result()
    run_id = await killed_at(url, "waits", existing="archive")
    async with headway_with_mirror(url) as hw:
        assert await hw.run(run_id).result() == []  # All that the first execution made is there.
    assert contents(tmp_path) == made_by(run_id)
    assert len(archives(tmp_path)) == 1
