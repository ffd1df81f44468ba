"""What is done with the database of an app, and by whom (R1.11)."""

import json
import socket
from pathlib import Path

import pytest

from headway.cli.exit_codes import EXIT_INVALID
from headway.cli.load_app import load_app
from headway.core.errors import ConfigurationError
from tests.cli.command import Ended, fault, headway, refusal

APP = """\
from headway import Headway
hw = Headway("sqlite:///mine.db")

@hw.job()
async def echo(ctx): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(APP)
    return tmp_path


def ok(ended: Ended) -> str:
    assert ended.code == 0, ended
    return ended.out


@pytest.mark.proves("R1.11")
def test_what_a_command_advises_works_with_the_same_app(folder: Path) -> None:
    sentence = refusal("run", "submit", "echo", "--app", "jobs:hw", folder=folder)
    _, _, advice = sentence.partition("; run: headway ")
    assert advice == "db upgrade --app jobs:hw"
    ok(headway(*advice.split(), folder=folder))
    ok(headway("run", "submit", "echo", "--app", "jobs:hw", folder=folder))
    assert not (folder / "headway.db").exists()


@pytest.mark.proves("R1.11")
def test_every_command_looks_where_the_run_was_submitted(folder: Path) -> None:
    app = ("--app", "jobs:hw")
    ok(headway("db", "upgrade", *app, folder=folder))
    run_id = ok(headway("run", "submit", "echo", *app, folder=folder)).strip()
    for words in (
        *(("run", verb, run_id) for verb in ("get", "explain", "events")),
        *(("run", "list"), ("lane", "pause", "main"), ("lane", "resume", "main")),
        *((group, "list") for group in ("lane", "key", "schedule", "flow", "task")),
        ("run", "cancel", run_id),
    ):
        ok(headway(*words, *app, folder=folder))
    told = ok(headway("run", "list", "--json", *app, folder=folder))
    assert (json.loads(told)["id"], json.loads(told)["status"]) == (run_id, "canceled")
    assert not (folder / "headway.db").exists()


@pytest.mark.proves("I15")
def test_whoever_has_no_jobs_is_asked_where_they_are(folder: Path) -> None:
    ok(headway("db", "upgrade", folder=folder))
    sentence = fault(headway("run", "submit", "echo", folder=folder))
    assert "'echo' is not registered; registered are: none; where are the jobs?" in sentence


@pytest.mark.proves("R1.11")
@pytest.mark.parametrize("words", [("db", "upgrade"), ("db", "check"), ("doctor",)])
def test_the_database_is_that_of_the_app(folder: Path, words: tuple[str, ...]) -> None:
    ok(headway("db", "upgrade", folder=folder, HEADWAY_APP="jobs:hw"))
    for ended in (
        headway(*words, "--app", "jobs:hw", folder=folder),
        headway(*words, folder=folder, HEADWAY_APP="jobs:hw"),
    ):
        assert ok(ended).splitlines()[-1].endswith("/mine.db")
    told = ok(headway("db", "prune", "--json", folder=folder, HEADWAY_APP="jobs:hw"))
    assert json.loads(told)["database"].endswith("/mine.db")
    assert not (folder / "headway.db").exists()


@pytest.mark.proves("R1.11")
def test_an_app_that_is_not_there_is_named(folder: Path) -> None:
    sentence = refusal("doctor", "--app", "other:hw", folder=folder)
    assert sentence.startswith("--app 'other:hw'")


@pytest.mark.proves("R1.11")
def test_an_app_is_named_by_its_module_and_not_by_its_file() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_app("folder/jobs.py:hw")
    assert str(refused.value) == "--app 'folder/jobs.py:hw' must be folder.jobs:hw, without .py"


@pytest.mark.proves("I9")
def test_a_server_on_a_port_that_is_taken_executes_nothing(folder: Path) -> None:
    ok(headway("db", "upgrade", "--app", "jobs:hw", folder=folder))
    run_id = ok(headway("run", "submit", "echo", "--app", "jobs:hw", folder=folder)).strip()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = headway("serve", "--app", "jobs:hw", "--port", port, folder=folder)
    assert ended.code == EXIT_INVALID
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose" in ended.err
    told = ok(headway("run", "get", run_id, "--json", folder=folder, HEADWAY_APP="jobs:hw"))
    assert (json.loads(told)["status"], json.loads(told)["generation"]) == ("queued", 0)
