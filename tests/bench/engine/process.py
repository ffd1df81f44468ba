"""A system at work: a process of its own, with an interpreter that has it."""

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
    """A system gave no answer; the sentence says what it said instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the race is run on."""

    new_databases: Mapping[str, Callable[[], AbstractContextManager[str]]]
    """For each store: the URL of an empty one, gone at the end."""
    places: Mapping[str, Place]
    """Those of headway's stores, as the measurements of the store know them."""
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
                _, said = process.communicate(timeout=ANSWER_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise DidNotFinish(f"no answer in {ANSWER_TIMEOUT_S:g} s") from None
        if not path.exists():
            last = said.strip().splitlines() or [f"it ended with {process.returncode}"]
            raise DidNotFinish(last[-1])
        return read_answer(path)


def start(
    entry: Entry, order: Order, ground: Ground, *, is_silent: bool = False
) -> subprocess.Popen[str]:
    """The process that carries out `order`; what it says on stderr can be read, unless silent."""
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
    """Ours, but a module is compiled once and not by each process: an installation does that."""
    environment = dict(os.environ) | {"PYTHONPYCACHEPREFIX": str(BYTECODE)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
