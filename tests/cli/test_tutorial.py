"""The tutorial works as printed: files, commands and output."""

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
"""Commands that keep running while the others are typed."""
NUMBER: Final = re.compile(r"^ *\d+  ")


def files(text: str = TEXT) -> dict[str, str]:
    return dict(re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```$', text, re.DOTALL | re.MULTILINE))


def commands(text: str = TEXT) -> Iterator[tuple[str, list[str]]]:
    """Yield each command with its expected lines. A line "…" stands for any lines."""
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for block in blocks:
        joined = block.replace("\n>", "\n")
        for part in re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            length = next(n for n in range(1, len(lines) + 1) if _is_whole(lines[:n]))
            yield "\n".join(lines[:length]), lines[length:]


def _is_whole(lines: Sequence[str]) -> bool:
    return "\n".join(lines).count("'") % 2 == 0 and not lines[-1].endswith("\\")


def test_tutorial_and_demo_use_the_same_flow() -> None:
    shown = parse_flow(files()["order.json"]).flow
    assert canonical_json(shown) == canonical_json(parse_flow(json.dumps(ORDER)).flow)


@pytest.mark.proves("R5.9")
def test_commands_of_the_tutorial_print_the_expected_output(folder: Path, tmp_path: Path) -> None:
    for name, text in files().items():
        (folder / name).write_text(text)
    port = free_port()
    variables = environment(
        PATH=f"{install_headway_command(tmp_path)}:{os.environ['PATH']}",
        PYTHONPATH=f"{ROOT / 'src'}",
        HEADWAY_PORT=port,
        REGISTRY_URL=f"http://127.0.0.1:{port}",
    )
    shell = Shell(folder, variables)
    with shell.programs:
        for command, expected in commands():
            shell.type(command.replace("8070", port), expected)


@pytest.mark.proves("R5.14")
def test_task_without_a_worker_waits_and_reports_the_missing_worker(
    folder: Path, tmp_path: Path
) -> None:
    """One task is cancelled while it waits. The other continues after a restart of the server."""
    for name, text in files().items():
        (folder / name).write_text(text)
    port = free_port()
    variables = environment(
        PATH=f"{install_headway_command(tmp_path)}:{os.environ['PATH']}",
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


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def install_headway_command(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "headway").write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
    (directory / "headway").chmod(0o755)
    return directory


class Shell:
    """Runs commands with shared variables, and stops each with Ctrl-C after its expected output."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._folder = folder
        self._variables = variables
        self.programs = ExitStack()

    def type(self, command: str, expected: Sequence[str]) -> None:
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._variables[name] = value
            return
        process = self._start(command)
        if command.startswith(PROGRAMS):
            self.programs.callback(_stop, process, signal.SIGTERM)
            ready_text = "headway serves" if "serve" in command else "worker_registered"
            assert process.stdout is not None
            first = next((line for line in process.stdout if ready_text in line), None)
            assert first is not None, command
            lines = [first, *islice(process.stdout, max(0, len(expected) - 1))]
            assert not expected or [line.rstrip() for line in lines] == expected, command
            return
        if "=$(" in command:
            name = command.partition("=")[0]
            self._variables[name] = _read_output(process)
            return
        _compare(command, process, expected)

    def _start(self, command: str) -> "subprocess.Popen[str]":
        if "=$(" in command:
            command = command.partition("=$(")[2].removesuffix(")")
        return subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=_restore_sigint,  # noqa: PLW1509  # No threads are running.
        )


def _restore_sigint() -> None:
    """Restore SIGINT, which a shell ignores for background processes and their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _read_output(process: "subprocess.Popen[str]") -> str:
    out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, out
    return out.strip()


def _compare(command: str, process: "subprocess.Popen[str]", expected: Sequence[str]) -> None:
    """Check that all expected lines are printed, in any order, and no others without a "…"."""
    missing = [_pattern(line) for line in expected if line != "…" and not _may_be_missed(line)]
    others: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        if _may_be_missed(line):
            continue
        matching = next((pattern for pattern in missing if pattern.fullmatch(_bare(line))), None)
        if matching is None:
            others.append(line)
            continue
        missing.remove(matching)
        if not missing:
            _stop(process, signal.SIGINT)
            break
    assert not missing, (command, missing, others)
    assert "…" in expected or not others, (command, others)
    process.communicate(timeout=TIMEOUT_S)


def _may_be_missed(line: str) -> bool:
    """Return True for a line that depends on timing: a short timer may fit between two polls."""
    return line.rstrip().endswith("waits for timer")


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in _bare(line).split("…")))


def _bare(line: str) -> str:
    return NUMBER.sub("", line.rstrip())


def _stop(process: "subprocess.Popen[str]", with_signal: signal.Signals) -> None:
    process.send_signal(with_signal)
    process.communicate(timeout=TIMEOUT_S)
