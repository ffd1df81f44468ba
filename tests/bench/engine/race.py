"""Rounds: each contestant in turn, then each again, so that noise of the machine hits all alike."""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.bench.engine.contestants import Entry, Scale
from tests.bench.engine.order import Answer, Order, as_argument, read_answer
from tests.bench.engine.results import Result
from tests.bench.places import ROOT

ANSWER_TIMEOUT_S: Final = 240.0
OURS_MODULE: Final = "tests.bench.engine.ours"

Step = Callable[[str], None]
"""Called before each measurement, with what it is."""


class DidNotFinish(Exception):
    """A system gave no answer; the sentence says what it said instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What the race is run on."""

    new_databases: Mapping[str, Callable[[], AbstractContextManager[str]]]
    """For each store: the URL of an empty one, gone at the end."""
    pythons: Mapping[str, str]
    """For each system: the interpreter that has it."""


def step_count(entries: Sequence[Entry], scale: Scale) -> int:
    """How many times `race` will call its `step`."""
    return sum(scale.rounds[entry.order.work] for entry in entries)


def race(
    entries: Sequence[Entry], ground: Ground, scale: Scale, step: Step, excuse: Step
) -> Iterator[Result]:
    """All entries are of one work. Who does not finish is excused, and takes part no more."""
    answers: dict[Entry, list[Answer]] = {entry: [] for entry in entries}
    for _ in range(scale.rounds[entries[0].order.work]):
        for entry in list(answers):
            step(f"{entry.order.work}: {entry.title}")
            try:
                with ground.new_databases[entry.contestant.store]() as url:
                    answer = carry_out(entry, replace(entry.order, url=url), ground)
            except DidNotFinish as reason:
                excuse(f"{entry.order.work}: {entry.title}: {reason}")
                del answers[entry]
            else:
                answers[entry].append(answer)
    for entry, given in answers.items():
        yield Result(entry, tuple(given))


def carry_out(entry: Entry, order: Order, ground: Ground) -> Answer:
    with tempfile.TemporaryDirectory(prefix="headway-race-") as folder:
        path = Path(folder) / "answer"
        order = replace(order, answer_file=str(path), ordered_at_s=time.perf_counter())
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


def start(entry: Entry, order: Order, ground: Ground) -> subprocess.Popen[str]:
    """The process that carries out `order`; what it says on stderr can be read."""
    contestant = entry.contestant
    module = OURS_MODULE if contestant.is_ours else f"tests.bench.peers.{contestant.system}"
    return subprocess.Popen(
        [ground.pythons[contestant.system], "-m", module, as_argument(order)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
