"""Help, version, and arguments that the command does not accept."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from headway.settings import Settings
from tests.cli.command import CommandResult, headway, refusal


def test_help_names_every_command(folder: Path) -> None:
    result = headway("--help", folder=folder)
    assert (result.code, result.err) == (0, "")
    for text in ("headway COMMAND", "db", "demo", "doctor", "explain", "--help", "--version"):
        assert text in result.out
    assert "HEADWAY_URL" in result.out
    assert "HEADWAY_TOKEN" in result.out


def test_help_of_serve_has_the_defaults_of_the_settings(folder: Path) -> None:
    text = " ".join(headway("serve", "--help", folder=folder).out.replace("│", " ").split())
    for name in ("host", "port"):
        default = Settings.model_fields[name].default
        assert f"Default: HEADWAY_{name.upper()}, or {default}." in text


def test_version_is_that_of_the_package(folder: Path) -> None:
    assert headway("--version", folder=folder) == CommandResult(0, f"{version('headway')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "command", "sentence"),
    [
        (
            ["dmeo"],
            "headway",
            (
                'Unknown command "dmeo". Did you mean "demo"?'
                " Available commands: demo, serve, doctor, worker, explain, completion, run,"
                " lane, ..."
            ),
        ),
        (
            ["db", "check", "--jsno"],
            "headway db check",
            "Unknown option: --jsno. Did you mean --json?",
        ),
        (
            ["db", "check", "now", "please"],
            "headway db check",
            'headway db check takes no "now" "please".',
        ),
        (["demo", "x"], "headway demo", 'headway demo takes no "x".'),
        (["explain"], "headway explain", "headway explain needs RUN_ID."),
        (["doctor", "--json=perhaps"], "headway doctor", "--json takes no value."),
        (["doctor", "--json", "--json"], "headway doctor", "--json is given twice."),
        (["--jso"], "headway", 'Unknown option "--jso".'),
        (["task", "approve"], "headway task approve", "headway task approve needs TASK_ID."),
        (
            ["run", "submit", "wait", "--seconds", "1"],
            "headway run submit",
            "Unknown option: --seconds. Write a parameter as name=value: seconds=1.",
        ),
        (
            ["key", "set", "ann", "wait", "--seconds=1"],
            "headway key set",
            "Unknown option: --seconds=1. Write a parameter as name=value: seconds=1.",
        ),
        (
            ["run", "submit", "wait", "--wacth"],
            "headway run submit",
            "Unknown option: --wacth. Did you mean --watch?",
        ),
        (
            ["run", "submit", "wait", "--lan", "x"],
            "headway run submit",
            ("Unknown option: --lan. Did you mean --lane? Write a parameter as name=value: lan=x."),
        ),
        (
            ["run", "submit", "wait", "--timeout-s", "abc"],
            "headway run submit",
            '--timeout-s must be a number or none, not "abc".',
        ),
        (
            ["run", "list", "--limit", "abc"],
            "headway run list",
            '--limit must be a whole number, not "abc".',
        ),
    ],
)
def test_error_names_arguments_that_a_command_does_not_accept(
    folder: Path, arguments: list[str], command: str, sentence: str
) -> None:
    message = f"{sentence} See: {command} --help"
    if any(argument.startswith("--json") for argument in arguments):
        result = headway(*arguments, folder=folder)
        error = {"code": "usage", "message": message}
        assert (result.code, result.out, json.loads(result.err)) == (2, "", {"error": error})
    else:
        assert refusal(*arguments, folder=folder) == message


def test_errors_are_json_with_the_json_option(folder: Path) -> None:
    for arguments in (["db", "check"], ["doctor"], ["explain", "some-run"]):
        result = headway(*arguments, "--json", folder=folder)
        error = json.loads(result.err)["error"]
        assert (result.code, result.out, error["code"]) == (2, "", "schema_mismatch")
    result = headway("doctor", "--json", folder=folder, HEADWAY_DURABILTY="power")
    assert json.loads(result.err)["error"]["code"] == "configuration_error"
