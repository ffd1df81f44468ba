"""The demo, in a pipe, to its end and interrupted."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from contextlib import suppress
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
    assert lines[-2] == "bob's run was cancelled on purpose, to show what that looks like."
    assert lines[-1].startswith("5 runs, ")
    assert lines[-1].endswith(" events, nothing lost.")
    assert contents(folder) == {}


@pytest.mark.parametrize(("column_count", "is_barred"), [(60, True), (40, False)])
def test_on_a_narrow_terminal_no_line_is_broken(
    folder: Path, column_count: int, is_barred: bool
) -> None:
    shown = shown_on_a_terminal("demo", folder=folder, column_count=column_count)
    rows = [line for line in shown.splitlines() if line.startswith("│") and "bob" in line]
    assert len(rows[-1]) <= column_count
    assert rows[-1].split()[1:4:2] == ["bob", "Cancelled"]
    assert ("█" in rows[-1]) is is_barred
    assert "…" not in shown


def test_where_only_ascii_is_understood_it_is_plain(folder: Path) -> None:
    ended = headway("demo", folder=folder, TMPDIR=str(folder), PYTHONIOENCODING="ascii")
    assert (ended.code, ended.err) == (0, "")
    assert "############ 12/12" in ended.out


def shown_on_a_terminal(*words: str, folder: Path, column_count: int) -> str:
    """All that the command writes to a terminal of that width, without colours and moves."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, column_count, 0, 0))
    settings = {"TMPDIR": str(folder), "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        command(*words),
        cwd=folder,
        env={k: v for k, v in environment(**settings).items() if k not in ("COLUMNS", "LINES")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Raised at the end, when nobody has the other side any more.
        while part := os.read(ours, 65_536):
            shown += part
    os.close(ours)
    assert process.wait(timeout=TIMEOUT_S) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "\n")


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
