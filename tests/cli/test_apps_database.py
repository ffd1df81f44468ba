"""What is done with the database of an app, and by whom (R1.11)."""

import json
import socket
from pathlib import Path

import pytest

from headway.cli.faults import EXIT_REFUSED
from tests.cli.command import Ended, headway, refusal

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


def test_r1_11_what_a_command_advises_works_with_the_same_app(folder: Path) -> None:
    sentence = refusal("run", "submit", "echo", "--app", "jobs:hw", folder=folder)
    _, _, advice = sentence.partition("; run: headway ")
    assert advice == "db upgrade --app jobs:hw"
    ok(headway(*advice.split(), folder=folder))
    ok(headway("run", "submit", "echo", "--app", "jobs:hw", folder=folder))
    assert not (folder / "headway.db").exists()


@pytest.mark.parametrize("words", [("db", "upgrade"), ("db", "check"), ("doctor",)])
def test_r1_11_the_database_is_that_of_the_app(folder: Path, words: tuple[str, ...]) -> None:
    ok(headway("db", "upgrade", folder=folder, HEADWAY_APP="jobs:hw"))
    for ended in (
        headway(*words, "--app", "jobs:hw", folder=folder),
        headway(*words, folder=folder, HEADWAY_APP="jobs:hw"),
    ):
        assert ok(ended).splitlines()[-1].endswith("/mine.db")
    told = ok(headway("db", "prune", "--json", folder=folder, HEADWAY_APP="jobs:hw"))
    assert json.loads(told)["database"].endswith("/mine.db")
    assert not (folder / "headway.db").exists()


def test_r1_11_an_app_that_is_not_there_is_named(folder: Path) -> None:
    sentence = refusal("doctor", "--app", "other:hw", folder=folder)
    assert sentence.startswith("--app 'other:hw'")


def test_i9_a_server_on_a_port_that_is_taken_executes_nothing(folder: Path) -> None:
    ok(headway("db", "upgrade", "--app", "jobs:hw", folder=folder))
    run_id = ok(headway("run", "submit", "echo", "--app", "jobs:hw", folder=folder)).strip()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = headway("serve", "--app", "jobs:hw", "--port", port, folder=folder)
    assert ended.code == EXIT_REFUSED
    assert f"cannot listen on 127.0.0.1:{port}" in ended.err
    told = ok(headway("run", "get", run_id, "--json", folder=folder, HEADWAY_APP="jobs:hw"))
    assert (json.loads(told)["status"], json.loads(told)["generation"]) == ("queued", 0)
