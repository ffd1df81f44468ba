"""Commands with `--app` use the database of that app (R1.11)."""

import json
import socket
from pathlib import Path

import pytest

from headway.cli.exit_codes import EXIT_INVALID
from headway.cli.load_app import load_app
from headway.core.errors import ConfigurationError
from tests.cli.command import CommandResult, error_sentence, headway, refusal

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


def output_of(result: CommandResult) -> str:
    assert result.code == 0, result
    return result.out


@pytest.mark.proves("R1.11")
def test_upgrade_command_advised_by_an_error_works_with_the_same_app(folder: Path) -> None:
    sentence = refusal("run", "submit", "echo", "--app", "jobs:hw", folder=folder)
    _, _, advice = sentence.partition("; run: headway ")
    assert advice == "db upgrade --app jobs:hw"
    output_of(headway(*advice.split(), folder=folder))
    output_of(headway("run", "submit", "echo", "--app", "jobs:hw", folder=folder))
    assert not (folder / "headway.db").exists()


@pytest.mark.proves("R1.11")
def test_every_command_uses_the_database_of_the_app(folder: Path) -> None:
    app = ("--app", "jobs:hw")
    output_of(headway("db", "upgrade", *app, folder=folder))
    run_id = output_of(headway("run", "submit", "echo", *app, folder=folder)).strip()
    for arguments in (
        *(("run", verb, run_id) for verb in ("get", "explain", "events")),
        *(("run", "list"), ("lane", "pause", "main"), ("lane", "resume", "main")),
        *((group, "list") for group in ("lane", "key", "schedule", "flow", "task")),
        ("run", "cancel", run_id),
    ):
        output_of(headway(*arguments, *app, folder=folder))
    output = output_of(headway("run", "list", "--json", *app, folder=folder))
    assert (json.loads(output)["id"], json.loads(output)["status"]) == (run_id, "canceled")
    assert not (folder / "headway.db").exists()


@pytest.mark.proves("I15")
def test_unknown_job_without_an_app_advises_the_app_option(folder: Path) -> None:
    output_of(headway("db", "upgrade", folder=folder))
    sentence = error_sentence(headway("run", "submit", "echo", folder=folder))
    assert "'echo' is not registered; registered jobs: none; name your jobs with --app" in sentence


@pytest.mark.proves("R1.11")
@pytest.mark.parametrize("arguments", [("db", "upgrade"), ("db", "check"), ("doctor",)])
def test_database_commands_use_the_database_of_the_app(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    output_of(headway("db", "upgrade", folder=folder, HEADWAY_APP="jobs:hw"))
    for result in (
        headway(*arguments, "--app", "jobs:hw", folder=folder),
        headway(*arguments, folder=folder, HEADWAY_APP="jobs:hw"),
    ):
        assert output_of(result).splitlines()[-1].endswith("/mine.db")
    output = output_of(headway("db", "prune", "--json", folder=folder, HEADWAY_APP="jobs:hw"))
    assert json.loads(output)["database"].endswith("/mine.db")
    assert not (folder / "headway.db").exists()


@pytest.mark.proves("R1.11")
def test_missing_app_is_named(folder: Path) -> None:
    sentence = refusal("doctor", "--app", "other:hw", folder=folder)
    assert sentence.startswith("--app 'other:hw'")


@pytest.mark.proves("R1.11")
def test_app_given_as_a_file_is_refused_with_its_module_name() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_app("folder/jobs.py:hw")
    assert str(refused.value) == "--app 'folder/jobs.py:hw' must be folder.jobs:hw, without .py"


@pytest.mark.proves("I15")
def test_app_is_checked_before_the_port(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = headway("serve", "--app", "nope:hw", "--port", port, folder=folder)
    assert (result.code, result.err) == (
        EXIT_INVALID,
        "headway: --app 'nope:hw': there is no module 'nope'\n",
    )


@pytest.mark.proves("I9")
def test_server_executes_no_run_if_its_port_is_in_use(folder: Path) -> None:
    output_of(headway("db", "upgrade", "--app", "jobs:hw", folder=folder))
    run_id = output_of(headway("run", "submit", "echo", "--app", "jobs:hw", folder=folder)).strip()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = headway("serve", "--app", "jobs:hw", "--port", port, folder=folder)
    assert result.code == EXIT_INVALID
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose" in result.err
    output = output_of(
        headway("run", "get", run_id, "--json", folder=folder, HEADWAY_APP="jobs:hw")
    )
    assert (json.loads(output)["status"], json.loads(output)["generation"]) == ("queued", 0)
