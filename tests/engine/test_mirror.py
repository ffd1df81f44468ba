"""The mirror: a file per run with its last state; its errors never affect the run (R1.9)."""

import asyncio
import json
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.read.read_runs import SqlRunReader
from headway.core.command.admin.prune import PruneEvents
from headway.core.errors import DatabaseUnavailable
from headway.core.run.run import RunRecord
from headway.services.upkeep import mirror
from headway.testing import a_submit
from tests.cli.command import environment
from tests.engine.folders import modes, wait_until
from tests.engine.scenes import open_bare_store

pytestmark = pytest.mark.backend("sqlite")
ROOT: Final = Path(__file__).parents[2]


def read_mirror(tmp_path: Path, run_id: str) -> Any:
    """Return the mirrored document of the run. Return None if there is no file."""
    try:
        return json.loads((tmp_path / "data" / "runs" / f"{run_id}.json").read_text())
    except FileNotFoundError:
        return None


def status(tmp_path: Path, run_id: str) -> str | None:
    document = read_mirror(tmp_path, run_id)
    return None if document is None else str(document["status"])


def headway_with_jobs(url: str, **options: Any) -> Headway:
    hw = Headway(url, **options)

    @hw.job()
    async def count(ctx: RunContext, to: int, padding: str = "") -> dict[str, int]:
        for number in range(to):
            await ctx.progress(downloaded=number + 1)
        return {"count": to}

    return hw


@pytest.mark.proves("R1.9")
async def test_the_mirror_file_has_the_last_state_and_progress_of_a_run(
    url: str, tmp_path: Path
) -> None:
    async with headway_with_jobs(url, mirror=True) as hw:
        await hw.lanes.set("main", max_concurrent=0)
        run = await hw.start("count", key="ключ", params={"to": 3})
        await wait_until(lambda: status(tmp_path, run.id) == "queued")
        await hw.lanes.set("main", max_concurrent=1)
        await run.result()
        await wait_until(lambda: status(tmp_path, run.id) == "succeeded")
    document = read_mirror(tmp_path, run.id)
    times = [document.pop(name) for name in ("queued_at", "started_at", "ended_at")]
    assert times == sorted(times)
    assert all(time.endswith("Z") for time in times)
    assert document == {
        "id": run.id,
        "key": "ключ",
        "job": "count",
        "lane": "main",
        "mode": "start",
        "status": "succeeded",
        "attempt": 1,
        "generation": 1,
        "continued_from": None,
        "params": {"to": 3, "padding": ""},
        "progress": {"downloaded": 3},
        "checkpoint": None,
        "result": {"count": 3},
        "error": None,
        "cancel": None,
    }
    assert modes(tmp_path / "data") == {(True, 0o700), (False, 0o600)}


@pytest.mark.proves("R1.9")
async def test_without_the_setting_no_mirror_file_is_written(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with headway_with_jobs(url) as hw:
        await (await hw.start("count", params={"to": 1})).result()
    assert not (tmp_path / "data").exists()
    monkeypatch.setenv("HEADWAY_MIRROR", "true")
    async with headway_with_jobs(url) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
    assert status(tmp_path, run.id) == "succeeded"


@pytest.mark.proves("R1.9")
async def test_the_end_of_a_run_is_mirrored_before_the_program_exits(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "WRITE_INTERVAL_S", 1e6)
    async with headway_with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
    assert status(tmp_path, run.id) == "succeeded"


@pytest.mark.proves("R1.9")
async def test_the_mirror_catches_up_with_missed_changes(url: str, tmp_path: Path) -> None:
    """The missed changes include those of other processes and pruned events."""
    async with headway_with_jobs(url, mirror=True) as hw:
        first = await hw.start("count", params={"to": 1})
        await first.result()
    async with headway_with_jobs(url) as hw:
        second = await hw.start("count", params={"to": 1})
        await second.result()
    assert read_mirror(tmp_path, second.id) is None
    async with open_bare_store(url) as store:
        seq = (await store.events.events(after_seq=0, limit=0)).last_seq
    (tmp_path / "data" / "runs" / f"{first.id}.json").unlink()
    async with headway_with_jobs(url, mirror=True), open_bare_store(url) as elsewhere:
        await wait_until(lambda: status(tmp_path, second.id) == "succeeded")
        assert read_mirror(tmp_path, first.id) is None  # It has not changed since then.
        submission = a_submit()
        await elsewhere.apply(submission)
        await wait_until(lambda: status(tmp_path, submission.run_id) == "queued")
    async with open_bare_store(url) as store:
        third = a_submit("bob")
        await store.apply(third)
        await store.apply(PruneEvents(seq + 100))
    async with headway_with_jobs(url, mirror=True):
        await wait_until(lambda: status(tmp_path, third.run_id) == "queued")
        await wait_until(lambda: status(tmp_path, first.id) == "succeeded")


@pytest.mark.proves("R1.9")
async def test_another_database_is_mirrored_from_its_first_event(url: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "runs").mkdir(parents=True)
    (tmp_path / "data" / "runs" / ".seq").write_text("1000000")
    async with headway_with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
    assert status(tmp_path, run.id) == "succeeded"


@pytest.mark.proves("R1.9")
async def test_a_failover_is_mirrored_after_an_outage_of_the_new_primary(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of the old primary may be lost, so the next round rewrites all files."""
    list_runs, is_unavailable = SqlRunReader.list_runs, True

    def list_after_outage(
        reader: SqlRunReader, *arguments: Any, **options: Any
    ) -> AsyncIterator[RunRecord]:
        nonlocal is_unavailable
        if is_unavailable:
            is_unavailable = False
            raise DatabaseUnavailable({"database": "it has just been promoted"})
        return list_runs(reader, *arguments, **options)

    async with headway_with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
        await wait_until(lambda: status(tmp_path, run.id) == "succeeded")
        (tmp_path / "data" / "runs" / f"{run.id}.json").write_text('{"status": "lost"}')
        monkeypatch.setattr(SqlRunReader, "list_runs", list_after_outage)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database:
            database.execute("UPDATE stream SET epoch = epoch + 1")
            database.commit()
        await wait_until(lambda: status(tmp_path, run.id) == "succeeded")


@pytest.mark.proves("R1.9")
async def test_an_unwritable_mirror_folder_is_logged_once_and_affects_no_run(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "WRITE_INTERVAL_S", 0.01)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "runs").write_text("in the way")
    caplog.set_level(logging.INFO, logger="headway.services.upkeep.mirror")
    async with headway_with_jobs(url, mirror=True) as hw:
        runs = [await hw.start("count", params={"to": 20}) for _ in range(3)]
        for run in runs:
            assert await run.result() == {"count": 20}
        await asyncio.sleep(0.1)
        log_events = [record.getMessage().split()[0] for record in caplog.records]
        assert log_events == ["mirror_write_failed"]
        (tmp_path / "data" / "runs").unlink()
        await wait_until(lambda: all(status(tmp_path, run.id) == "succeeded" for run in runs))
    log_events = [record.getMessage().split()[0] for record in caplog.records]
    assert log_events == ["mirror_write_failed", "mirror_resumed"]


@pytest.mark.proves("R1.9")
async def test_a_mirror_file_is_never_seen_partially_written(url: str, tmp_path: Path) -> None:
    seen: set[int] = set()
    async with headway_with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 10, "padding": "x" * 500_000})
        while status(tmp_path, run.id) != "succeeded":
            document = read_mirror(tmp_path, run.id)  # Raises if it is not complete.
            if document is not None:
                seen.add(len(document["params"]["padding"]))
            await asyncio.sleep(0)
    assert seen <= {500_000}


@pytest.mark.proves("R1.9")
async def test_after_a_kill_the_next_start_mirrors_the_last_state(url: str, tmp_path: Path) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.engine.files_worker", url, "waits"),
        cwd=ROOT,
        env=environment(HEADWAY_MIRROR="1"),
        stdout=subprocess.PIPE,
    )
    out, _ = await worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    run_id = out.decode().strip()
    async with Headway(url, mirror=True) as hw:
        await hw.run(run_id).cancel()
        await hw.run(run_id).wait_for_end()
    assert status(tmp_path, run_id) == "canceled"
