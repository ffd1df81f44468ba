"""`headway doctor` and `headway explain`: what they print, and how they end."""

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
from tests.cli.command import TIMEOUT_S, Ended, command, environment, headway, refusal
from tests.contract.backends import run_apart
from tests.contract.scenes import raise_limit, running, submitted

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
def run_ids(folder: Path) -> list[RunId]:
    """A run of `ann` that executes, and one behind it, in the folder's database."""

    async def work() -> list[RunId]:
        store = await open_store([f"sqlite:///{folder}/headway.db"])
        try:
            one = await running(store, "ann")
            return [one.run_id, await submitted(store, "ann", on_conflict=OnConflict.ENQUEUE)]
        finally:
            await store.close()

    found: list[RunId] = run_apart(work)
    return found


def alter(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "headway.db", isolation_level=None)) as connection:
        connection.execute(statement)


def test_all_is_well_in_one_line(folder: Path, run_ids: list[RunId]) -> None:
    sentence = "all is well; checked: 2 runs, 3 events, 3 lanes\n"
    told = f"{sentence}database: sqlite:///{folder}/headway.db\n"
    assert headway("doctor", folder=folder) == Ended(0, told, "")
    ended = headway("doctor", "--json", folder=folder)
    assert (ended.code, json.loads(ended.out)) == (
        0,
        {
            "violation_count": 0,
            "note_count": 0,
            "run_count": 2,
            "event_count": 3,
            "lane_count": 3,
        },
    )


def test_a_violation_is_a_line_and_ends_with_1(folder: Path, run_ids: list[RunId]) -> None:
    alter(folder, "UPDATE runs SET unread_count = 1 WHERE waiting_key IS NOT NULL")
    sentence = "it says that 1 messages are unread, but there are 0"
    assert headway("doctor", folder=folder) == Ended(
        1,
        f"I3, run {run_ids[1]}: {sentence}\n"
        "1 violation found; checked: 2 runs, 3 events, 3 lanes\n"
        f"database: sqlite:///{folder}/headway.db\n",
        "",
    )
    ended = headway("doctor", "--json", folder=folder)
    finding, summary = map(json.loads, ended.out.splitlines())
    assert (ended.code, summary["violation_count"]) == (1, 1)
    assert finding == {
        "weight": "violation",
        "promise": "I3",
        "place": f"run {run_ids[1]}",
        "sentence": sentence,
    }


def test_a_note_is_no_violation(folder: Path, run_ids: list[RunId]) -> None:
    async def lower() -> None:
        store = await open_store([f"sqlite:///{folder}/headway.db"])
        try:
            await raise_limit(store, 0)
        finally:
            await store.close()

    run_apart(lower)
    ended = headway("doctor", folder=folder)
    note, summary, _ = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, "")
    assert note.startswith("note, I5, lane 'main': 1 slots are held, and the limit is 0")
    assert summary.startswith("all is well, 1 note; checked: ")


def test_on_a_terminal_a_bar_is_shown_beside_what_is_printed(
    folder: Path, run_ids: list[RunId]
) -> None:
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


def test_without_a_schema_it_refuses_and_makes_none(folder: Path) -> None:
    assert refusal("doctor", folder=folder) == (
        "the database sqlite:///headway.db has no headway schema; run: headway db upgrade"
    )


def test_a_damaged_file_is_told_in_one_sentence(folder: Path, run_ids: list[RunId]) -> None:
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
def test_a_run_is_explained_in_words(folder: Path, run_ids: list[RunId]) -> None:
    ended = headway("explain", run_ids[1], folder=folder)
    assert (ended.code, ended.err) == (0, "")
    sentence, *lines = ended.out.splitlines()
    assert sentence == f"Key 'ann' is busy: run {run_ids[0]} (running) goes first."
    told = dict(line.split("\t") for line in lines)
    assert (told["gate"], told["position"], told["held by"]) == ("key", "1", run_ids[0])
    assert "until" not in told
    assert told["place"] == f"sqlite:///{folder}/headway.db"


@pytest.mark.proves("R1.12")
def test_a_run_is_explained_to_programs(folder: Path, run_ids: list[RunId]) -> None:
    alter(folder, "UPDATE runs SET queued_at = 1750000000000001 WHERE waiting_key IS NOT NULL")
    ended = headway("explain", run_ids[1], "--json", folder=folder)
    told = json.loads(ended.out)
    assert ended.code == 0
    assert (told["run_id"], told["status"], told["gate"]) == (run_ids[1], "queued", "key")
    assert (told["holder_ids"], told["position"], told["until"]) == ([run_ids[0]], 1, None)
    assert told["since"] == "2025-06-15T15:06:40.000001Z"
    assert {"sentence", "remedy"} < told.keys()


def test_a_run_that_is_not_there_is_named(folder: Path, run_ids: list[RunId]) -> None:
    ended = headway("explain", "none", folder=folder)
    sentence = "there is no run 'none'"
    assert ended == Ended(4, "", f"headway: {sentence}\n")
    ended = headway("explain", "none", "--json", folder=folder)
    error = {"code": "run_not_found", "message": sentence}
    assert (ended.code, ended.out, json.loads(ended.err)) == (4, "", {"error": error})


def test_a_database_that_does_not_answer_is_told_from_one_without_a_schema(folder: Path) -> None:
    silent = {"HEADWAY_DATABASE_URL": "postgresql://ann@127.0.0.1:1/runs"}
    assert headway("doctor", folder=folder, **silent).code == 5
    assert headway("doctor", folder=folder).code == 2
    told = " ".join(headway("doctor", "--help", folder=folder).out.split())
    assert "with 2 when there is nothing that it could read" in told
    assert "with 5 when the database does not answer" in told
