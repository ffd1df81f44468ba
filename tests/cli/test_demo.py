"""The demo, in a pipe, to its end and interrupted."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import TIMEOUT_S, command, contents, environment, headway

pytestmark = pytest.mark.backend("sqlite")


def test_in_a_pipe_it_prints_every_account_once_and_leaves_nothing(folder: Path) -> None:
    ended = headway("demo", folder=folder, TMPDIR=str(folder))
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("a second start for ann is refused: key 'ann' already has an active")
    rows = [line.split() for line in lines if line.startswith("│")]
    assert [(row[1], row[3]) for row in rows] == [
        ("ann", "Done"),
        ("bob", "Cancelled"),
        ("cem", "Done"),
        ("dot", "Done"),
        ("eve", "Done"),
    ]
    assert lines[-1].startswith("5 runs, ")
    assert lines[-1].endswith(" events, nothing lost.")
    assert contents(folder) == {}


def test_interrupted_it_ends_at_once_without_a_word_and_leaves_nothing(folder: Path) -> None:
    # Tests that run in the background of a shell ignore the signal, and their children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command("demo"),
        cwd=folder,
        env=environment(TMPDIR=str(folder)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("a second start for ann is refused")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "")
    assert contents(folder) == {}
