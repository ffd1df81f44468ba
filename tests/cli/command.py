"""Run the real command in a subprocess, and check what every refusal must satisfy."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECRET: Final = "hush-hush"
"""The password in every URL of these tests. No output may contain it."""
TIMEOUT_S: Final = 60
# A cache of compiled modules, for machines where Python may not write next to the sources.
COMPILED: Final = {"PYTHONPYCACHEPREFIX": str(Path(__file__).parents[2] / ".cache" / "pycache")}
REMOVED_PREFIXES: Final = ("HEADWAY_", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str


def command(*arguments: str, within: Sequence[str] = ()) -> list[str]:
    """Return the command line of `headway`, prefixed by the command `within`."""
    return [*within, sys.executable, "-m", "headway", *arguments]


def environment(**settings: str) -> dict[str, str]:
    """Return the environment of this process without headway's variables, plus `settings`."""
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(REMOVED_PREFIXES)
    }
    return others | COMPILED | settings


def headway(
    *arguments: str, folder: Path, within: Sequence[str] = (), **settings: str
) -> CommandResult:
    """Run `headway` in `folder` until it exits."""
    result = subprocess.run(
        command(*arguments, within=within),
        cwd=folder,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert SECRET not in result.stdout + result.stderr
    return CommandResult(result.returncode, result.stdout, result.stderr)


def refusal(*arguments: str, folder: Path, within: Sequence[str] = (), **settings: str) -> str:
    """Run `headway`, which must refuse and change nothing. Return the error sentence."""
    before = contents(folder)
    sentence = error_sentence(headway(*arguments, folder=folder, within=within, **settings))
    assert contents(folder) == before
    return sentence


def error_sentence(result: CommandResult) -> str:
    """Return the single error line of a failed command, without its prefix."""
    assert "Traceback" not in result.err
    (line,) = result.err.splitlines()
    assert line.startswith("headway: ")
    is_outage = line.startswith("headway: no database address can be used")
    assert (result.code, result.out) == (5 if is_outage else 2, ""), result
    return line.removeprefix("headway: ")


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return every path below `folder` with its bytes, or None if it is not a file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
