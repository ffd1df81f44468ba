"""Rounds: each entry in turn, then each again, so that noise of the machine affects all equally."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from tests.bench.engine.contestants import Entry, Scale
from tests.bench.engine.order import Answer, Work
from tests.bench.engine.process import DidNotFinish, Ground, carry_out
from tests.bench.engine.recovery import recover
from tests.bench.engine.results import Result
from tests.bench.plan import FILL_COUNT
from tests.bench.rounds import finish_runs

Step = Callable[[str], None]
"""Called before each measurement, with its name."""


def step_count(entries: Sequence[Entry], scale: Scale) -> int:
    """Return how many times `race` will call its `step`."""
    work = entries[0].order.work
    fill_count = scale.finished_count // FILL_COUNT if work is Work.STARTUP else 0
    return len(entries) * (scale.rounds[work] + fill_count)


def race(
    entries: Sequence[Entry], ground: Ground, scale: Scale, step: Step, excuse: Step
) -> Iterator[Result]:
    """Race entries of one work. Report another system that does not finish."""
    answers: dict[Entry, list[Answer]] = {entry: [] for entry in entries}
    with ExitStack() as stack:
        grown = {}
        if entries[0].order.work is Work.STARTUP:
            for entry in entries:
                place = ground.places[entry.contestant.store]
                grown[entry] = stack.enter_context(place.new_database())
                finish_runs(place, grown[entry], scale.finished_count, step)
                carry_out(entry, grown[entry], ground)  # The first one also compiles.
        for _ in range(scale.rounds[entries[0].order.work]):
            for entry, answer in _round(list(answers), ground, grown, step):
                if isinstance(answer, DidNotFinish):
                    if entry.contestant.is_ours:
                        raise answer
                    excuse(f"{entry.order.work}: {entry.title}: {answer}")
                    del answers[entry]
                else:
                    answers[entry].append(answer)
    for entry, given in answers.items():
        yield Result(entry, tuple(given))


def _round(
    entries: Sequence[Entry], ground: Ground, grown: Mapping[Entry, str], step: Step
) -> Iterator[tuple[Entry, Answer | DidNotFinish]]:
    def answer_of(entry: Entry) -> Answer | DidNotFinish:
        step(f"{entry.order.work}: {entry.title}")
        try:
            if entry in grown:
                return carry_out(entry, grown[entry], ground)
            with ground.new_databases[entry.contestant.store]() as url:
                if entry.order.work is Work.RECOVERY:
                    return recover(entry, url, ground)
                return carry_out(entry, url, ground)
        except DidNotFinish as reason:
            return reason

    # Recovery is mostly waiting, so all entries can do it concurrently.
    at_once = len(entries) if entries and entries[0].order.work is Work.RECOVERY else 1
    with ThreadPoolExecutor(max_workers=max(at_once, 1)) as pool:
        yield from zip(entries, pool.map(answer_of, entries), strict=True)
