"""What a person types first: help, version, and words that the command does not know."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.command import Ended, headway, refusal


def test_help_names_every_command(folder: Path) -> None:
    ended = headway("--help", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    for word in ("headway COMMAND", "db", "demo", "doctor", "explain", "--help", "--version"):
        assert word in ended.out
    assert "HEADWAY_URL" in ended.out
    assert "HEADWAY_TOKEN" in ended.out


def test_version_is_the_packages(folder: Path) -> None:
    assert headway("--version", folder=folder) == Ended(0, f"{version('headway')}\n", "")


@pytest.mark.parametrize(
    ("words", "command", "sentence"),
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
            "Unknown option: --seconds. A parameter is given as name=value: seconds=1.",
        ),
        (
            ["key", "set", "ann", "wait", "--seconds=1"],
            "headway key set",
            "Unknown option: --seconds=1. A parameter is given as name=value: seconds=1.",
        ),
        (
            ["run", "submit", "wait", "--wacth"],
            "headway run submit",
            "Unknown option: --wacth. Did you mean --watch?",
        ),
    ],
)
def test_words_that_it_does_not_know_are_named(
    folder: Path, words: list[str], command: str, sentence: str
) -> None:
    told = f"{sentence} See: {command} --help"
    if any(word.startswith("--json") for word in words):
        ended = headway(*words, folder=folder)
        error = {"code": "usage", "message": told}
        assert (ended.code, ended.out, json.loads(ended.err)) == (2, "", {"error": error})
    else:
        assert refusal(*words, folder=folder) == told


def test_with_json_a_failure_is_json_too(folder: Path) -> None:
    for words in (["db", "check"], ["doctor"], ["explain", "some-run"]):
        ended = headway(*words, "--json", folder=folder)
        error = json.loads(ended.err)["error"]
        assert (ended.code, ended.out, error["code"]) == (2, "", "schema_mismatch")
    ended = headway("doctor", "--json", folder=folder, HEADWAY_DURABILTY="power")
    assert json.loads(ended.err)["error"]["code"] == "configuration_error"
