"""Rounds of measurements: raw, ours, raw, ours …, each in a new process on a new database."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tests.bench.child import carry_out_apart
from tests.bench.figures import Figure, Series, Unit
from tests.bench.places import Place
from tests.bench.plan import (
    FEW_FINISHED_COUNT,
    FILL_COUNT,
    GROWTH_BACKENDS,
    GROWTH_CALLERS,
    GROWTH_KEY_COUNTS,
    RATES,
    Assignment,
    Outcome,
    Scale,
    Side,
    What,
)

Step = Callable[[str], None]
"""Called before each measurement, with its name."""
DETAILS: Final = {
    What.SUBMITS: "submits",
    What.CLAIMS: "claims",
    What.CYCLES: "life cycles",
}


def step_count(places: Sequence[Place], whats: Sequence[What], scale: Scale) -> int:
    """Return how many times `measure` will call its `step`."""
    rates = sum(2 * scale.rounds_of(what) * len(scale.callers) for what in whats if what in RATES)
    latency = 2 * scale.rounds if What.LATENCY in whats else 0
    count = len(places) * (rates + latency)
    if What.GROWTH in whats:
        grown = sum(place.name in GROWTH_BACKENDS for place in places)
        steps = scale.finished_count // FILL_COUNT + 4 * scale.cycle_rounds
        count += grown * len(GROWTH_KEY_COUNTS) * steps
    return count


def measure(
    places: Sequence[Place], whats: Sequence[What], scale: Scale, step: Step
) -> Iterator[Figure]:
    for place in places:
        for what in whats:
            match what:
                case What.LATENCY:
                    yield from _latency(place, scale, step)
                case What.GROWTH:
                    if place.name in GROWTH_BACKENDS:
                        for key_count in GROWTH_KEY_COUNTS:
                            yield from _growth(place, key_count, scale, step)
                case _:
                    for callers in scale.callers:
                        yield _rate(place, what, callers, scale, step)


def _rate(place: Place, what: What, callers: int, scale: Scale, step: Step) -> Figure:
    assignment = Assignment(
        what=what,
        side=Side.RAW,
        url="",
        durability=place.durability,
        callers=callers,
        duration_s=scale.duration_s,
        backlog_count=scale.backlog_of(callers) if what is What.CLAIMS else 0,
    )
    rounds = _rounds(place, assignment, scale.rounds_of(what), step)
    return _figure(place, what, DETAILS[what], callers, rounds)


def _latency(place: Place, scale: Scale, step: Step) -> Iterator[Figure]:
    assignment = Assignment(
        what=What.LATENCY,
        side=Side.RAW,
        url="",
        durability=place.durability,
        latency_count=scale.latency_count,
    )
    rounds = _rounds(place, assignment, scale.rounds, step)
    for detail, attribute in (("submit, p50", "p50_ms"), ("submit, p99", "p99_ms")):
        yield _figure(place, What.LATENCY, detail, 1, rounds, attribute=attribute, unit="ms")


def _rounds(
    place: Place, assignment: Assignment, round_count: int, step: Step
) -> list[tuple[Outcome, Outcome]]:
    """Return, for each round, the raw driver's outcome and ours."""
    rounds = []
    for _ in range(round_count):
        outcomes = []
        for side in (Side.RAW, Side.HEADWAY):
            step(f"{place.title}: {assignment.what}, {assignment.callers:,} callers, {side}")
            with place.new_database() as url:
                outcomes.append(carry_out_apart(replace(assignment, side=side, url=url)))
        rounds.append((outcomes[0], outcomes[1]))
    return rounds


def _growth(place: Place, key_count: int | None, scale: Scale, step: Step) -> Iterator[Figure]:
    """Measure ours and the raw driver: the loss that both have is the cost of the indexes."""
    assignment = Assignment(
        what=What.CYCLES,
        side=Side.HEADWAY,
        url="",
        durability=place.durability,
        callers=GROWTH_CALLERS,
        duration_s=scale.duration_s,
        key_count=key_count,
    )
    many, few = f"{scale.finished_count:,}", f"{FEW_FINISHED_COUNT:,}"
    rounds: dict[Side, list[tuple[Outcome, Outcome]]] = {side: [] for side in Side}
    with place.new_database() as grown_url:
        finish_runs(place, grown_url, scale.finished_count, step)
        for _ in range(scale.cycle_rounds):
            for side in Side:
                one = replace(assignment, side=side)
                step(f"{place.title}: life cycles beside {few} finished runs, {side}")
                with place.new_database() as url:
                    _finish(place, url, FEW_FINISHED_COUNT)
                    place.settle(url)
                    before = carry_out_apart(replace(one, url=url))
                step(f"{place.title}: life cycles beside {many} finished runs, {side}")
                place.settle(grown_url)
                rounds[side].append((before, carry_out_apart(replace(one, url=grown_url))))
    keys = "each run its own key" if key_count is None else f"{key_count:,} keys in turn"
    for side in (Side.HEADWAY, Side.RAW):
        detail = f"{many} and {few} finished runs, {keys}: {side}"
        is_judged = side is Side.HEADWAY and key_count is None
        figure = _figure(place, What.GROWTH, detail, GROWTH_CALLERS, rounds[side])
        yield replace(figure, is_judged=is_judged)


def finish_runs(place: Place, url: str, count: int, step: Step) -> None:
    """Create many finished runs, and let the system settle; call `step` for each FILL_COUNT."""
    for done_count in range(0, count, FILL_COUNT):
        step(f"{place.title}: making finished runs, {done_count:,} of {count:,}")
        _finish(place, url, FILL_COUNT)
    place.settle(url)


def _finish(place: Place, url: str, count: int) -> None:
    carry_out_apart(
        Assignment(
            what=What.GROWTH,
            side=Side.RAW,
            url=url,
            durability=place.durability,
            finished_count=count,
        )
    )


def _figure(
    place: Place,
    what: What,
    detail: str,
    callers: int,
    rounds: Sequence[tuple[Outcome, Outcome]],
    *,
    attribute: str = "rate",
    unit: Unit = "1/s",
) -> Figure:
    references = [reference for reference, _ in rounds]
    ours = [headway for _, headway in rounds]
    return Figure(
        backend=place.name,
        title=place.title,
        what=what,
        detail=detail,
        callers=callers,
        unit=unit,
        headway=Series(tuple(getattr(one, attribute) for one in ours)),
        reference=Series(tuple(getattr(one, attribute) for one in references)),
        headway_cpu_us=_cpu(ours),
        reference_cpu_us=_cpu(references),
    )


def _cpu(outcomes: Sequence[Outcome]) -> Series:
    return Series(tuple(one.cpu_s / one.count * 1e6 for one in outcomes))
