"""The short form of the torture: enough processes, kills and keys to detect violations."""

from collections.abc import Iterator

import pytest

from tests.torture.claims import Size, torture
from tests.torture.failover import fail_over
from tests.torture.hundred import CALLER_COUNT, hundred, hundred_in_memory
from tests.torture.pairs import PAIRS, Pair
from tests.torture.places import PLACES

BACKENDS = [
    pytest.param(place, marks=pytest.mark.backend("sqlite-file" if place == "sqlite" else place))
    for place in PLACES
]


@pytest.fixture
def urls(place: str) -> Iterator[list[str]]:
    with PLACES[place]() as urls:
        yield urls


def _no_step(_: int) -> None:
    """Ignore the progress."""


@pytest.mark.proves("I4", "I5", "I9", "I13")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", BACKENDS)
async def test_processes_that_share_a_database_cause_no_violation(urls: list[str]) -> None:
    size = Size(run_count=400, process_count=4, key_count=50)
    findings = await torture(urls, size, _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.accepted == findings.runs == size.run_count


@pytest.mark.proves("I3", "I8")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", BACKENDS)
async def test_nothing_is_lost_when_processes_are_killed(urls: list[str]) -> None:
    size = Size(run_count=100_000, kill_count=3, process_count=4, key_count=50)
    findings = await torture(urls, size, _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.accepted > 0


@pytest.fixture
def pair(place: str) -> Iterator[Pair]:
    with PAIRS[place]() as pair:
        yield pair


@pytest.mark.proves("I3", "I13", "I21")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=pytest.mark.backend(place)) for place in PAIRS]
)
async def test_a_database_fails_over_under_load(pair: Pair) -> None:
    size = Size(run_count=100_000, failover_count=2, process_count=3, key_count=50)
    findings = await fail_over(pair, size, _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.accepted > 0


@pytest.mark.proves("R1.5")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", BACKENDS)
async def test_only_one_of_a_hundred_submissions_from_four_processes_is_accepted(
    urls: list[str],
) -> None:
    findings = await hundred(urls, 5, _no_step)
    assert (findings.faults, findings.accepted, findings.told) == ([], 5, 5 * (CALLER_COUNT - 1))


@pytest.mark.proves("R1.5")
@pytest.mark.backend("sqlite-memory")
async def test_only_one_of_a_hundred_submissions_for_a_key_is_accepted_in_memory() -> None:
    findings = await hundred_in_memory(5, _no_step)
    assert (findings.faults, findings.accepted, findings.told) == ([], 5, 5 * (CALLER_COUNT - 1))
