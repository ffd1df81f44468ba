"""The demo: in a pipe, on a terminal with a person, and interrupted (R5.9)."""

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live

from headway.cli.demo.display import DemoDisplay, TaskSnapshot
from headway.cli.demo.run_demo import ACCOUNTS, CANCELED_ACCOUNT
from tests.cli.command import TIMEOUT_S, command, contents, environment, headway

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.slow]


@pytest.mark.proves("R5.9")
def test_demo_in_a_pipe_takes_both_branches_and_prints_results(
    folder: Path,
) -> None:
    result = headway("demo", folder=folder, TMPDIR=str(folder), PYTHONIOENCODING="ascii")
    assert (result.code, result.err) == (0, "")
    live, *summaries = result.out.split("\n\n")
    lines = live.splitlines()
    assert lines[0].startswith("the server is http://127.0.0.1:")
    assert lines[1].startswith("a second start for ann is refused: key 'ann' already has an active")
    for name in ("ann", "cem", "dot", "eve"):
        assert [line.split()[1] for line in lines if line.startswith(f"{name} ")][-1] == "Done"
    assert "bob      Cancelled" in lines
    assert "order    Waiting  approve: waits for approval" in lines
    assert "order    approved by the demo, because this is not a terminal" in lines
    b, c, order, last = summaries
    assert summary(b) == ["text B: succeeded", "result = MAKE HEADWAY", "decide ok", "B ok"]
    assert summary(c) == ["text C: succeeded", "result = make headway", "decide ok", "C ok"]
    assert [line for line in summary(order) if " = " not in line] == [
        "order: succeeded",
        "check[0] ok",
        "check[1] ok",
        "check ok",
        "price[0] ok",
        "price[1] ok",
        "price[2] ok",
        "price ok",
        "total ok",
        "breathe ok",
        "approve ok",
        "pack ok",
    ]
    assert "total = 55" in summary(order)
    assert last.startswith("bob's run was canceled on purpose. 5 runs, 3 tasks, ")
    assert contents(folder) == {}


def summary(text: str) -> list[str]:
    """Return the parts of each line that are the same in every execution, in a fixed order."""
    heading, *rest = text.splitlines()
    shared = [line.strip() for line in rest if " = " in line]
    rows = [line.split()[1:3] for line in rest if " = " not in line]
    nodes = [row[0].partition("[")[0] for row in rows]
    ordered = sorted(rows, key=lambda row: (nodes.index(row[0].partition("[")[0]), row[0] + "~"))
    return [heading, *shared, *(" ".join(row) for row in ordered)]


def test_person_approves_on_a_terminal_and_ctrl_c_exits_cleanly(folder: Path) -> None:
    with on_a_terminal(folder, "--seconds", "1.5", column_count=130) as (process, read):
        shown = read("task approve ")
        assert re.search(r"order +Waiting +approve: waits for approval +check → price", shown)
        hint = re.findall(r"HEADWAY_URL=(\S+) (.* task approve \S+)", shown)[-1]
        approved = subprocess.run(
            shlex.split(hint[1]), cwd=folder, env=environment(HEADWAY_URL=hint[0]), check=False
        )
        assert approved.returncode == 0
        shown = read("Ctrl-C")
        assert "Cancelled" in shown
        assert "parcel = a parcel for ann, in brown paper" in shown
        # The board has a row for each account whose run has ended.
        states = {run["key"]: run["state"] for run in get_json(hint[0], "/api/state")["last_runs"]}
        expected = dict.fromkeys(ACCOUNTS, "Done") | {CANCELED_ACCOUNT: "Cancelled"}
        assert {key: states.get(key) for key in expected} == expected
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=TIMEOUT_S) == 0
    assert contents(folder) == {}


def test_demo_on_a_terminal_is_slow_enough_to_watch_and_can_be_left(
    folder: Path,
) -> None:
    with on_a_terminal(folder, column_count=130) as (process, read):
        (address,) = set(re.findall(r"HEADWAY_URL=(\S+) ", read("task approve ")))
        for row in get_json(address, "/api/keys")["keys"]:
            assert row["params"]["page_count"] * row["params"]["page_s"] == pytest.approx(20)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=TIMEOUT_S) == 0
    assert contents(folder) == {}


def get_json(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}{path}", timeout=TIMEOUT_S) as answer:  # noqa: S310
        return json.load(answer)


def test_interrupted_demo_exits_silently_and_leaves_no_files(folder: Path) -> None:
    # A shell starts background processes with SIGINT ignored, and children inherit that.
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
    assert process.stdout.readline().startswith("the server is ")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "")
    assert contents(folder) == {}


def test_killed_demo_leaves_no_worker_behind(folder: Path) -> None:
    process = subprocess.Popen(
        command("demo"), cwd=folder, env=environment(TMPDIR=str(folder)), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"the server is ")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [pid for pid in children if b"demo.demo_worker" in _command_line(pid)]
    assert len(workers) == 1
    process.kill()
    process.wait()
    process.stdout.close()
    deadline_s = time.monotonic() + TIMEOUT_S
    while b"demo.demo_worker" in _command_line(workers[0]):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def _command_line(pid: str) -> bytes:
    """Return the command line of the process, or nothing if it has exited."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.mark.parametrize(("column_count", "has_bar"), [(60, True), (40, False)])
def test_no_line_is_wrapped_on_a_narrow_terminal(column_count: int, has_bar: bool) -> None:
    board = DemoDisplay()
    board.console.width = column_count
    run = {"key": "bob", "state": "Cancelled", "progress": {"downloaded": 3}, "ended_at": "now"}
    task = {"node": "approve", "waits_for": "approval"}
    shown = TaskSnapshot(
        "order", task, run, [{"node": "check"}, {"node": "check"}, {"node": "price"}]
    )
    with board.console.capture() as captured:
        board.console.print(board.build_tables([run], [shown]))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= column_count
    (row,) = [line for line in lines if line.startswith("bob")]
    assert ("█" in row or "#" in row) is has_bar
    assert "3/12" in row
    assert shown.visited_nodes == ["check", "price"]


def test_command_and_titles_are_not_wrapped() -> None:
    board = DemoDisplay()
    board.console.width = 80
    board.is_terminal, board._live = True, Live(console=board.console, auto_refresh=False)
    run = {"key": "bob", "state": "Done", "progress": None, "ended_at": "now"}
    line = (
        "  HEADWAY_URL=http://127.0.0.1:8070 .venv/bin/python -m headway task approve " + "f" * 36
    )
    with board.console.capture() as captured, board:
        board.show([run], [])
        board.print_line(line)
    lines = captured.get().splitlines()
    assert line in lines
    assert "one run per account, three at a time" in lines


@contextmanager
def on_a_terminal(
    folder: Path, *arguments: str, column_count: int
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[str], str]]]:
    """Start the demo on a terminal. Yield it and a reader of its output without escape codes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, column_count, 0, 0))
    settings = environment(TMPDIR=str(folder), TERM="xterm", NO_COLOR="1")
    process = subprocess.Popen(
        command("demo", *arguments),
        cwd=folder,
        env={name: value for name, value in settings.items() if name not in ("COLUMNS", "LINES")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)

    def read(until: str) -> str:
        shown = b""
        plain = ""
        while until not in plain or not plain.rpartition(until)[2].count("\n"):
            shown += os.read(ours, 65_536)
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
        return plain.replace("\r", "\n")

    try:
        yield process, read
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        os.close(ours)
