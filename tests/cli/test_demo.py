"""The demo: in a pipe to its end, on a terminal with a person, and interrupted (R5.9)."""

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

from headway.cli.demo.demo_keys import DemoDisplay, TaskSnapshot
from headway.cli.demo.run_demo import ACCOUNTS, CANCELED_ACCOUNT
from tests.cli.command import TIMEOUT_S, command, contents, environment, headway

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.slow]


@pytest.mark.proves("R5.9")
def test_in_a_pipe_both_branches_are_taken_and_results_and_node_runs_printed(
    folder: Path,
) -> None:
    ended = headway("demo", folder=folder, TMPDIR=str(folder), PYTHONIOENCODING="ascii")
    assert (ended.code, ended.err) == (0, "")
    live, *told = ended.out.split("\n\n")
    lines = live.splitlines()
    assert lines[0].startswith("the server is http://127.0.0.1:")
    assert lines[1].startswith("a second start for ann is refused: key 'ann' already has an active")
    for name in ("ann", "cem", "dot", "eve"):
        assert [line.split()[1] for line in lines if line.startswith(f"{name} ")][-1] == "Done"
    assert "bob      Cancelled" in lines
    assert "order    Waiting  approve: waits for approval" in lines
    assert "order    is approved by the demo: in a pipe there is nobody to ask" in lines
    b, c, order, last = told
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
    assert last.startswith("bob's run was cancelled on purpose. 5 runs, 3 tasks, ")
    assert contents(folder) == {}


def summary(told: str) -> list[str]:
    """Of each line what does not differ from time to time; branches in their order."""
    heading, *rest = told.splitlines()
    shared = [line.strip() for line in rest if " = " in line]
    rows = [line.split()[1:3] for line in rest if " = " not in line]
    nodes = [row[0].partition("[")[0] for row in rows]
    ordered = sorted(rows, key=lambda row: (nodes.index(row[0].partition("[")[0]), row[0] + "~"))
    return [heading, *shared, *(" ".join(row) for row in ordered)]


def test_on_a_terminal_a_person_approves_and_ctrl_c_ends_it_in_good_order(folder: Path) -> None:
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
        # The board has a row for each account that is over.
        states = {run["key"]: run["state"] for run in asked(hint[0], "/api/state")["last_runs"]}
        wanted = dict.fromkeys(ACCOUNTS, "Done") | {CANCELED_ACCOUNT: "Cancelled"}
        assert {key: states.get(key) for key in wanted} == wanted
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=TIMEOUT_S) == 0
    assert contents(folder) == {}


def test_on_a_terminal_there_is_time_to_watch_and_one_may_leave_while_the_order_waits(
    folder: Path,
) -> None:
    with on_a_terminal(folder, column_count=130) as (process, read):
        (address,) = set(re.findall(r"HEADWAY_URL=(\S+) ", read("task approve ")))
        for row in asked(address, "/api/keys")["keys"]:
            assert row["params"]["page_count"] * row["params"]["page_s"] == pytest.approx(20)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=TIMEOUT_S) == 0
    assert contents(folder) == {}


def asked(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}{path}", timeout=TIMEOUT_S) as answer:  # noqa: S310
        return json.load(answer)


def test_interrupted_it_ends_without_a_word_and_leaves_nothing(folder: Path) -> None:
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
    assert process.stdout.readline().startswith("the server is ")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "")
    assert contents(folder) == {}


def test_killed_it_leaves_no_worker_behind(folder: Path) -> None:
    process = subprocess.Popen(
        command("demo"), cwd=folder, env=environment(TMPDIR=str(folder)), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"the server is ")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [pid for pid in children if b"demo.worker" in _command_line(pid)]
    assert len(workers) == 1
    process.kill()
    process.wait()
    process.stdout.close()
    until_s = time.monotonic() + TIMEOUT_S
    while b"demo.worker" in _command_line(workers[0]):
        assert time.monotonic() < until_s
        time.sleep(0.05)


def _command_line(pid: str) -> bytes:
    """Nothing, when there is no such process any more."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.mark.parametrize(("column_count", "is_barred"), [(60, True), (40, False)])
def test_on_a_narrow_terminal_no_line_is_broken(column_count: int, is_barred: bool) -> None:
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
    assert ("█" in row or "#" in row) is is_barred
    assert "3/12" in row
    assert shown.visited_nodes == ["check", "price"]


@contextmanager
def on_a_terminal(
    folder: Path, *words: str, column_count: int
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[str], str]]]:
    """The demo on a terminal; what it has shown so far, without colours and moves."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, column_count, 0, 0))
    settings = environment(TMPDIR=str(folder), TERM="xterm", NO_COLOR="1")
    process = subprocess.Popen(
        command("demo", *words),
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
