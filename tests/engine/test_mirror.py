"""The mirror: a file for every run that shows its last state, and never harms the run (R1.9)."""

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
from tests.engine.folders import modes, until
from tests.engine.scenes import looked_at

pytestmark = pytest.mark.backend("sqlite")
ROOT: Final = Path(__file__).parents[2]


def mirrored(tmp_path: Path, run_id: str) -> Any:
    """What the file of the run says; None: there is none."""
    try:
        return json.loads((tmp_path / "data" / "runs" / f"{run_id}.json").read_text())
    except FileNotFoundError:
        return None


def status(tmp_path: Path, run_id: str) -> str | None:
    found = mirrored(tmp_path, run_id)
    return None if found is None else str(found["status"])


def with_jobs(url: str, **options: Any) -> Headway:
    hw = Headway(url, **options)

    @hw.job()
    async def count(ctx: RunContext, to: int, padding: str = "") -> dict[str, int]:
        for number in range(to):
            await ctx.progress(downloaded=number + 1)
        return {"count": to}

    return hw


@pytest.mark.proves("R1.9")
async def test_the_last_state_and_figures_of_a_run_are_in_its_file(
    url: str, tmp_path: Path
) -> None:
    async with with_jobs(url, mirror=True) as hw:
        await hw.lanes.set("main", max_concurrent=0)
        run = await hw.start("count", key="ключ", params={"to": 3})
        await until(lambda: status(tmp_path, run.id) == "queued")
        await hw.lanes.set("main", max_concurrent=1)
        await run.result()
        await until(lambda: status(tmp_path, run.id) == "succeeded")
    found = mirrored(tmp_path, run.id)
    times = [found.pop(name) for name in ("queued_at", "started_at", "ended_at")]
    assert times == sorted(times)
    assert all(time.endswith("Z") for time in times)
    assert found == {
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
async def test_without_the_setting_there_is_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_jobs(url) as hw:
        await (await hw.start("count", params={"to": 1})).result()
    assert not (tmp_path / "data").exists()
    monkeypatch.setenv("HEADWAY_MIRROR", "true")
    async with with_jobs(url) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
    assert status(tmp_path, run.id) == "succeeded"


@pytest.mark.proves("R1.9")
async def test_how_it_ended_is_there_when_the_program_has_ended(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "INTERVAL_S", 1e6)
    async with with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
    assert status(tmp_path, run.id) == "succeeded"


@pytest.mark.proves("R1.9")
async def test_what_happened_while_nobody_mirrored_is_caught_up_with(
    url: str, tmp_path: Path
) -> None:
    """Also what other processes write, and what the stream has forgotten."""
    async with with_jobs(url, mirror=True) as hw:
        first = await hw.start("count", params={"to": 1})
        await first.result()
    async with with_jobs(url) as hw:
        second = await hw.start("count", params={"to": 1})
        await second.result()
    assert mirrored(tmp_path, second.id) is None
    async with looked_at(url) as store:
        seq = (await store.events.events(after_seq=0, limit=0)).last_seq
    (tmp_path / "data" / "runs" / f"{first.id}.json").unlink()
    async with with_jobs(url, mirror=True), looked_at(url) as elsewhere:
        await until(lambda: status(tmp_path, second.id) == "succeeded")
        assert mirrored(tmp_path, first.id) is None  # It has not changed since.
        submission = a_submit()
        await elsewhere.apply(submission)
        await until(lambda: status(tmp_path, submission.run_id) == "queued")
    async with looked_at(url) as store:
        third = a_submit("bob")
        await store.apply(third)
        await store.apply(PruneEvents(seq + 100))
    async with with_jobs(url, mirror=True):
        await until(lambda: status(tmp_path, third.run_id) == "queued")
        await until(lambda: status(tmp_path, first.id) == "succeeded")


@pytest.mark.proves("R1.9")
async def test_another_database_is_mirrored_from_its_beginning(url: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "runs").mkdir(parents=True)
    (tmp_path / "data" / "runs" / ".seq").write_text("1000000")
    async with with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
    assert status(tmp_path, run.id) == "succeeded"


@pytest.mark.proves("R1.9")
async def test_a_failover_is_mirrored_though_the_new_primary_goes_away_at_first(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the old one had told may be gone: all files are written anew, in the next round."""
    list_runs, is_away = SqlRunReader.list_runs, True

    def away(reader: SqlRunReader, *given: Any, **named: Any) -> AsyncIterator[RunRecord]:
        nonlocal is_away
        if is_away:
            is_away = False
            raise DatabaseUnavailable({"database": "it has just been promoted"})
        return list_runs(reader, *given, **named)

    async with with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 1})
        await run.result()
        await until(lambda: status(tmp_path, run.id) == "succeeded")
        (tmp_path / "data" / "runs" / f"{run.id}.json").write_text('{"status": "lost"}')
        monkeypatch.setattr(SqlRunReader, "list_runs", away)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database:
            database.execute("UPDATE stream SET epoch = epoch + 1")
            database.commit()
        await until(lambda: status(tmp_path, run.id) == "succeeded")


@pytest.mark.proves("R1.9")
async def test_a_folder_that_cannot_be_written_is_told_once_and_harms_no_run(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "INTERVAL_S", 0.01)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "runs").write_text("in the way")
    caplog.set_level(logging.INFO, logger="headway.services.upkeep.mirror")
    async with with_jobs(url, mirror=True) as hw:
        runs = [await hw.start("count", params={"to": 20}) for _ in range(3)]
        for run in runs:
            assert await run.result() == {"count": 20}
        await asyncio.sleep(0.1)
        said = [record.getMessage().split()[0] for record in caplog.records]
        assert said == ["mirror_not_written"]
        (tmp_path / "data" / "runs").unlink()
        await until(lambda: all(status(tmp_path, run.id) == "succeeded" for run in runs))
    said = [record.getMessage().split()[0] for record in caplog.records]
    assert said == ["mirror_not_written", "mirror_goes_on"]


@pytest.mark.proves("R1.9")
async def test_a_file_is_never_seen_half_written(url: str, tmp_path: Path) -> None:
    seen: set[int] = set()
    async with with_jobs(url, mirror=True) as hw:
        run = await hw.start("count", params={"to": 10, "padding": "x" * 500_000})
        while status(tmp_path, run.id) != "succeeded":
            found = mirrored(tmp_path, run.id)  # Raises if it is not whole.
            if found is not None:
                seen.add(len(found["params"]["padding"]))
            await asyncio.sleep(0)
    assert seen <= {500_000}


@pytest.mark.proves("R1.9")
async def test_after_a_kill_the_next_start_shows_the_last_state(url: str, tmp_path: Path) -> None:
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
