"""The output and the exit codes of `headway doctor` and `headway explain`."""

import json
import os
import pty
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from headway.adapters.sql.sql_store import open_store
from headway.core.ids import RunId
from headway.core.run.admission import OnConflict
from tests.cli.command import TIMEOUT_S, CommandResult, command, environment, headway, refusal
from tests.contract.backends import run_in_thread
from tests.contract.scenes import raise_limit, start_run, submit_run

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def run_ids(folder: Path) -> list[RunId]:
    """The ids of a running run of `ann` and of one queued behind it."""

    async def work() -> list[RunId]:
        store = await open_store([f"sqlite:///{folder}/headway.db"])
        try:
            claim = await start_run(store, "ann")
            return [claim.run_id, await submit_run(store, "ann", on_conflict=OnConflict.ENQUEUE)]
        finally:
            await store.close()

    ids: list[RunId] = run_in_thread(work)
    return ids


def alter(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "headway.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_healthy_database_is_reported_in_one_line(folder: Path, run_ids: list[RunId]) -> None:
    sentence = "no violations found; checked: 2 runs, 3 events, 3 lanes\n"
    output = f"{sentence}database: sqlite:///{folder}/headway.db\n"
    assert headway("doctor", folder=folder) == CommandResult(0, output, "")
    result = headway("doctor", "--json", folder=folder)
    assert (result.code, json.loads(result.out)) == (
        0,
        {
            "violation_count": 0,
            "note_count": 0,
            "run_count": 2,
            "event_count": 3,
            "lane_count": 3,
        },
    )


def test_violation_is_printed_and_exits_with_1(folder: Path, run_ids: list[RunId]) -> None:
    alter(folder, "UPDATE runs SET unread_count = 1 WHERE waiting_key IS NOT NULL")
    sentence = "its unread count is 1, but its inbox has 0 unread items"
    assert headway("doctor", folder=folder) == CommandResult(
        1,
        f"I3, run {run_ids[1]}: {sentence}\n"
        "1 violation found; checked: 2 runs, 3 events, 3 lanes\n"
        f"database: sqlite:///{folder}/headway.db\n",
        "",
    )
    result = headway("doctor", "--json", folder=folder)
    finding, summary = map(json.loads, result.out.splitlines())
    assert (result.code, summary["violation_count"]) == (1, 1)
    assert finding == {
        "weight": "violation",
        "promise": "I3",
        "subject": f"run {run_ids[1]}",
        "sentence": sentence,
    }


def test_doctor_exits_with_0_if_it_reports_only_notes(folder: Path, run_ids: list[RunId]) -> None:
    async def lower() -> None:
        store = await open_store([f"sqlite:///{folder}/headway.db"])
        try:
            await raise_limit(store, 0)
        finally:
            await store.close()

    run_in_thread(lower)
    result = headway("doctor", folder=folder)
    note, summary, _ = result.out.splitlines()
    assert (result.code, result.err) == (0, "")
    assert note.startswith("note, I5, lane 'main': 1 slots are held, and the limit is 0")
    assert summary.startswith("no violations found, 1 note; checked: ")


def test_terminal_shows_a_progress_bar_on_stderr(folder: Path, run_ids: list[RunId]) -> None:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            command("doctor"),
            cwd=folder,
            env=environment(TERM="xterm"),
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        out, _ = process.communicate(timeout=TIMEOUT_S)
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (process.returncode, out.count("\n")) == (0, 2)
    assert "checking" in shown
    assert "100%" in shown


def test_doctor_refuses_without_a_schema_and_creates_none(folder: Path) -> None:
    assert refusal("doctor", folder=folder) == (
        "the database sqlite:///headway.db has no headway schema; run: headway db upgrade"
    )


def test_damaged_file_is_reported_in_one_sentence(folder: Path, run_ids: list[RunId]) -> None:
    path = folder / "headway.db"
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'runs'"
        ((page,),) = connection.execute(query)
        ((size,),) = connection.execute("PRAGMA page_size")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    assert refusal("doctor", folder=folder) == (
        f"the database file '{path.name}' is damaged; restore it from a copy, or name another file"
    )


@pytest.mark.proves("R1.12")
def test_run_is_explained_in_a_sentence(folder: Path, run_ids: list[RunId]) -> None:
    result = headway("explain", run_ids[1], folder=folder)
    assert (result.code, result.err) == (0, "")
    sentence, *lines = result.out.splitlines()
    assert sentence == f"Key 'ann' is busy: run {run_ids[0]} (running) goes first."
    facts = dict(line.split("\t") for line in lines)
    assert (facts["gate"], facts["position"], facts["held by"]) == ("key", "1", run_ids[0])
    assert "until" not in facts
    assert facts["source"] == f"sqlite:///{folder}/headway.db"


@pytest.mark.proves("R1.12")
def test_run_is_explained_in_json(folder: Path, run_ids: list[RunId]) -> None:
    alter(folder, "UPDATE runs SET queued_at = 1750000000000001 WHERE waiting_key IS NOT NULL")
    result = headway("explain", run_ids[1], "--json", folder=folder)
    explanation = json.loads(result.out)
    assert result.code == 0
    assert (explanation["run_id"], explanation["status"], explanation["gate"]) == (
        run_ids[1],
        "queued",
        "key",
    )
    assert explanation["holder_ids"] == [run_ids[0]]
    assert (explanation["position"], explanation["until"]) == (1, None)
    assert explanation["since"] == "2025-06-15T15:06:40.000001Z"
    assert {"sentence", "remedy"} < explanation.keys()


def test_missing_run_is_named(folder: Path, run_ids: list[RunId]) -> None:
    result = headway("explain", "none", folder=folder)
    sentence = "there is no run 'none'"
    assert result == CommandResult(4, "", f"headway: {sentence}\n")
    result = headway("explain", "none", "--json", folder=folder)
    error = {"code": "run_not_found", "message": sentence}
    assert (result.code, result.out, json.loads(result.err)) == (4, "", {"error": error})


def test_unreachable_database_and_missing_schema_have_different_exit_codes(folder: Path) -> None:
    unreachable = {"HEADWAY_DATABASE_URL": "postgresql://ann@127.0.0.1:1/runs"}
    assert headway("doctor", folder=folder, **unreachable).code == 5
    assert headway("doctor", folder=folder).code == 2
    help_text = " ".join(headway("doctor", "--help", folder=folder).out.split())
    assert "2 there is no database or no headway schema in it" in help_text
    assert "5 the database is unavailable" in help_text
