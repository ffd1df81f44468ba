"""The tutorial, word by word: its files are written, its commands run, its output compared."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from headway.cli.demo.demo_flows import ORDER
from headway.core.flow.canonical import canonical_json
from headway.core.flow.parse import parse_flow
from tests.cli.command import TIMEOUT_S, environment

pytestmark = [pytest.mark.backend("sqlite"), pytest.mark.slow]

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
PROGRAMS: Final = ("headway serve", "headway worker")
"""They go on while the rest is typed."""
NUMBER: Final = re.compile(r"^ *\d+  ")


def files(text: str = TEXT) -> dict[str, str]:
    return dict(re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```$', text, re.DOTALL | re.MULTILINE))


def commands(text: str = TEXT) -> Iterator[tuple[str, list[str]]]:
    """Each command, with the lines that it is to print; a line of … stands for any lines."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        joined = block.replace("\n>", "\n")
        for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            length = next(n for n in range(1, len(lines) + 1) if _is_whole(lines[:n]))
            yield "\n".join(lines[:length]), lines[length:]


def _is_whole(lines: Sequence[str]) -> bool:
    return "\n".join(lines).count("'") % 2 == 0 and not lines[-1].endswith("\\")


def test_the_flow_is_that_of_the_demo() -> None:
    shown = parse_flow(files()["order.json"]).flow
    assert canonical_json(shown) == canonical_json(parse_flow(json.dumps(ORDER)).flow)


@pytest.mark.proves("R5.9")
def test_the_tutorial_does_what_it_says(folder: Path, tmp_path: Path) -> None:
    for name, text in files().items():
        (folder / name).write_text(text)
    port = a_free_port()
    variables = environment(
        PATH=f"{a_headway_command(tmp_path)}:{os.environ['PATH']}",
        PYTHONPATH=f"{ROOT / 'src'}",
        HEADWAY_PORT=port,
        REGISTRY_URL=f"http://127.0.0.1:{port}",
    )
    shell = Shell(folder, variables)
    with shell.programs:
        for command, expected in commands():
            shell.type(command.replace("8070", port), expected)


@pytest.mark.proves("R5.14")
def test_the_tutorial_started_without_a_worker_waits_for_one_and_says_so(
    folder: Path, tmp_path: Path
) -> None:
    """The run is cancelled while it waits, and restarted in the middle."""
    for name, text in files().items():
        (folder / name).write_text(text)
    port = a_free_port()
    variables = environment(
        PATH=f"{a_headway_command(tmp_path)}:{os.environ['PATH']}",
        PYTHONPATH=f"{ROOT / 'src'}",
        HEADWAY_PORT=port,
        HEADWAY_URL=f"http://127.0.0.1:{port}",
        REGISTRY_URL=f"http://127.0.0.1:{port}",
    )
    starting = next(command for command, _ in commands() if command.startswith("TASK="))
    shell = Shell(folder, variables)
    with shell.programs:
        shell.type("headway serve", [])
        shell.type("headway flow push order order.json", ["…", "order version 1"])
        for name in ("TASK", "OTHER"):
            shell.type(starting.replace("TASK=", f"{name}="), [])
            waits = "order v1  running at check, waits for a worker that offers 'stock', 'credit'"
            shell.type(f"headway task watch ${name}", [f"…  {waits} until …"])
        sentence = "Its node 'check' waits for a worker that offers 'stock', 'credit'."
        shell.type("headway explain $TASK", [sentence, "…"])
        shell.type("headway task cancel $OTHER", ["canceled"])
    with shell.programs:
        shell.type("headway serve", [])
        shell.type("headway worker work:services", [])
        shell.type("headway task watch $TASK", ["…", "…  order v1  running at approve, waits …"])
        shell.type("headway task watch $OTHER", ["…", "…  order v1  canceled at check"])


def a_free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def a_headway_command(tmp_path: Path) -> Path:
    place = tmp_path / "bin"
    place.mkdir()
    (place / "headway").write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
    (place / "headway").chmod(0o755)
    return place


class Shell:
    """Types commands, keeps variables, and leaves with Ctrl-C what has said what it should."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._folder = folder
        self._variables = variables
        self.programs = ExitStack()

    def type(self, command: str, expected: Sequence[str]) -> None:
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._variables[name] = value
            return
        process = self._started(command)
        if command.startswith(PROGRAMS):
            self.programs.callback(_ended, process, signal.SIGTERM)
            said = "headway serves" if "serve" in command else "worker_registered"
            assert process.stdout is not None
            first = next((line for line in process.stdout if said in line), None)
            assert first is not None, command
            lines = [first, *islice(process.stdout, max(0, len(expected) - 1))]
            assert not expected or [line.rstrip() for line in lines] == expected, command
            return
        if "=$(" in command:
            name = command.partition("=")[0]
            self._variables[name] = _all_of(process)
            return
        _compared(command, process, expected)

    def _started(self, command: str) -> "subprocess.Popen[str]":
        if "=$(" in command:
            command = command.partition("=$(")[2].removesuffix(")")
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_heeds_ctrl_c,  # noqa: PLW1509  # There are no threads here.
        )


def _heeds_ctrl_c() -> None:
    """Tests that run in the background of a shell ignore it, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _all_of(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out
    return out.strip()


def _compared(command: str, process: "subprocess.Popen[str]", expected: Sequence[str]) -> None:
    """All that is expected is said, in whatever order branches end; without … nothing else is."""
    missing = [_pattern(line) for line in expected if line != "…" and not _may_pass_unseen(line)]
    others: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        if _may_pass_unseen(line):
            continue
        found = next((one for one in missing if one.fullmatch(_bare(line))), None)
        if found is None:
            others.append(line)
            continue
        missing.remove(found)
        if not missing:
            _ended(process, signal.SIGINT)
            break
    assert not missing, (command, missing, others)
    assert "…" in expected or not others, (command, others)
    process.communicate(timeout=TIMEOUT_S)


def _may_pass_unseen(line: str) -> bool:
    """A short timer may begin and end between two looks."""
    return line.rstrip().endswith("waits for timer")


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in _bare(line).split("…")))


def _bare(line: str) -> str:
    return NUMBER.sub("", line.rstrip())


def _ended(process: "subprocess.Popen[str]", with_signal: signal.Signals) -> None:
    process.send_signal(with_signal)
    process.communicate(timeout=TIMEOUT_S)
