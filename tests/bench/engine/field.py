"""Prepare the race: the entries, the databases, and the environments of other systems."""

import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from tests.bench.engine.contestants import OURS, Entry, Scale, entries_of
from tests.bench.engine.environments import CannotInstall, python_with
from tests.bench.engine.order import Work
from tests.bench.engine.process import Ground
from tests.bench.engine.race import Step, race, step_count
from tests.bench.engine.results import Result
from tests.bench.places import Place
from tests.servers import Missing, start_redis


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    works: tuple[tuple[Entry, ...], ...]
    """The entries of each work; none is empty."""
    ground: Ground
    scale: Scale

    @property
    def step_count(self) -> int:
        return sum(step_count(entries, self.scale) for entries in self.works)

    def results(self, step: Step, excuse: Step) -> Iterator[Result]:
        for entries in self.works:
            yield from race(entries, self.ground, self.scale, step, excuse)


@contextmanager
def open_field(
    works: Sequence[Work],
    places: Sequence[Place],
    *,
    stores: Collection[str],
    is_ours_alone: bool,
    scale: Scale,
    excuse: Step,
) -> Iterator[Field]:
    """Start and install what is needed. Report and leave out what is unavailable."""
    with ExitStack() as stack:
        usual = {
            place.family: place for place in places if place.is_usual and place.family in stores
        }
        databases = {family: place.new_database for family, place in usual.items()}
        if "redis" in stores and not is_ours_alone:
            try:
                redis = start_redis()
            except Missing as reason:
                excuse(str(reason))
            else:
                stack.callback(redis.stop)
                databases["redis"] = _emptied(redis.url, redis.execute)
        found = [
            list(entries_of(work, stores=databases, is_ours_alone=is_ours_alone, scale=scale))
            for work in works
        ]
        pythons = _pythons(itertools.chain(*found), excuse)
        present = (
            tuple(one for one in entries if one.contestant.system in pythons) for entries in found
        )
        yield Field(
            works=tuple(entries for entries in present if entries),
            ground=Ground(new_databases=databases, places=usual, pythons=pythons),
            scale=scale,
        )


def _pythons(entries: Iterable[Entry], excuse: Step) -> dict[str, str]:
    """Return the interpreter of each system. Report those that cannot be installed."""
    pythons = {OURS: sys.executable}
    for system in dict.fromkeys(entry.contestant.system for entry in entries):
        if system not in pythons:
            try:
                pythons[system] = python_with(system)
            except CannotInstall as reason:
                excuse(f"{system}: {reason}")
    return pythons


def _emptied(
    url: str, execute: Callable[[str], object]
) -> Callable[[], AbstractContextManager[str]]:
    @contextmanager
    def new_database() -> Iterator[str]:
        execute("FLUSHALL")
        yield url

    return new_database
