"""What a person types first: help, version, and words that the command does not know."""

from importlib.metadata import version
from pathlib import Path

import pytest

from tests.cli.command import Ended, headway, refusal


def test_help_names_every_command(folder: Path) -> None:
    ended = headway("--help", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    for word in ("headway COMMAND", "db", "demo", "doctor", "explain", "--help", "--version"):
        assert word in ended.out


def test_version_is_the_packages(folder: Path) -> None:
    assert headway("--version", folder=folder) == Ended(0, f"{version('headway')}\n", "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["dmeo"],
            (
                'Unknown command "dmeo". Did you mean "demo"?'
                " Available commands: db, demo, doctor, explain."
            ),
        ),
        (["db", "check", "--jsno"], "Unknown option: --jsno. Did you mean --json?"),
    ],
)
def test_words_that_it_does_not_know_are_named(
    folder: Path, words: list[str], sentence: str
) -> None:
    assert refusal(*words, folder=folder) == f"{sentence} See: headway --help"
