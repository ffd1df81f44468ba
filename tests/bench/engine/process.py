"""Run a system in a process of its own, with an interpreter that has it."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.bench.engine.contestants import Entry
from tests.bench.engine.order import Answer, Order, as_argument, read_answer
from tests.bench.places import ROOT, Place

ANSWER_TIMEOUT_S: Final = 240.0
OURS_MODULE: Final = "tests.bench.engine.ours"
BYTECODE: Final = ROOT / ".cache" / "bytecode"


class DidNotFinish(Exception):
    """A system gave no answer. The message contains its last output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The environment of the race."""

    new_databases: Mapping[str, Callable[[], AbstractContextManager[str]]]
    """For each store: opens the URL of an empty database, which is removed at the end."""
    places: Mapping[str, Place]
    """The stores of headway, as the measurements of the store name them."""
    pythons: Mapping[str, str]
    """For each system: the interpreter that has it."""


def carry_out(entry: Entry, url: str, ground: Ground) -> Answer:
    with tempfile.TemporaryDirectory(prefix="headway-race-") as folder:
        path = Path(folder) / "answer"
        order = replace(
            entry.order, url=url, answer_file=str(path), ordered_at_s=time.perf_counter()
        )
        with start(entry, order, ground) as process:
            try:
                _, output = process.communicate(timeout=ANSWER_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise DidNotFinish(f"no answer in {ANSWER_TIMEOUT_S:g} s") from None
        if not path.exists():
            last = output.strip().splitlines() or [f"it ended with {process.returncode}"]
            raise DidNotFinish(last[-1])
        return read_answer(path)


def start(
    entry: Entry, order: Order, ground: Ground, *, is_silent: bool = False
) -> subprocess.Popen[str]:
    """Start the process that carries out `order`. Its stderr can be read, unless silent."""
    contestant = entry.contestant
    module = OURS_MODULE if contestant.is_ours else f"tests.bench.peers.{contestant.system}"
    return subprocess.Popen(
        [ground.pythons[contestant.system], "-m", module, as_argument(order)],
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if is_silent else subprocess.PIPE,
        text=True,
    )


def _environment() -> dict[str, str]:
    """Our environment, but modules are compiled once and not by each process, as installed ones
    are.
    """
    environment = dict(os.environ) | {"PYTHONPYCACHEPREFIX": str(BYTECODE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
