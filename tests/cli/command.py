"""The real command, as a process of its own, and what must hold whenever it refuses."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECRET: Final = "hush-hush"
"""The password in every URL of these tests. No output may hold it."""
TIMEOUT_S: Final = 60
# Every start would compile it all again where Python must not write beside the sources.
COMPILED: Final = {"PYTHONPYCACHEPREFIX": str(Path(__file__).parents[2] / ".cache" / "pycache")}
LEFT_OUT: Final = ("HEADWAY_", "PYTHONDONTWRITEBYTECODE")


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


def command(*arguments: str, within: Sequence[str] = ()) -> list[str]:
    """The command line of `headway`; `within` is what to run it under, if anything."""
    return [*within, sys.executable, "-m", "headway", *arguments]


def environment(**settings: str) -> dict[str, str]:
    """This one without headway's own variables, and `settings`."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    return others | COMPILED | settings


def headway(*arguments: str, folder: Path, within: Sequence[str] = (), **settings: str) -> Ended:
    """Run `headway` in `folder` to its end."""
    ended = subprocess.run(
        command(*arguments, within=within),
        cwd=folder,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert SECRET not in ended.stdout + ended.stderr
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def refusal(*arguments: str, folder: Path, within: Sequence[str] = (), **settings: str) -> str:
    """Run `headway`, which must refuse in one sentence and change nothing; the sentence."""
    before = contents(folder)
    sentence = fault(headway(*arguments, folder=folder, within=within, **settings))
    assert contents(folder) == before
    return sentence


def fault(ended: Ended) -> str:
    """The one sentence with which a command has ended."""
    assert "Traceback" not in ended.err
    (line,) = ended.err.splitlines()
    assert line.startswith("headway: ")
    is_outage = line.startswith("headway: no database address can be used")
    assert (ended.code, ended.out) == (5 if is_outage else 2, ""), ended
    return line.removeprefix("headway: ")


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below `folder` with its bytes; a folder, and what is no file, has None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
