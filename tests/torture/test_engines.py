"""The short form of the torture of engines, which `make check` runs on SQLite."""

from collections.abc import Iterator

import pytest

from tests.torture.claims import Size
from tests.torture.engines import check_effort, engines
from tests.torture.places import PLACES
from tests.torture.replay import Findings

SIZE = Size(
    run_count=30, kill_count=3, pause_count=1, deadly_count=1, process_count=3, key_count=50
)
BACKENDS = [
    pytest.param("sqlite", marks=pytest.mark.backend("sqlite-file")),
    pytest.param("postgres", marks=pytest.mark.backend("postgres")),
]


@pytest.fixture
def urls(place: str) -> Iterator[list[str]]:
    with PLACES[place]() as urls:
        yield urls


@pytest.mark.proves("I1", "I2", "I4", "I5", "I17")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", BACKENDS)
async def test_engines_cause_no_violation_while_they_are_killed_and_paused(
    urls: list[str],
) -> None:
    findings = await engines(urls, SIZE, lambda _: None)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.accepted > 0


@pytest.mark.proves("I17")
def test_a_torture_run_that_hit_or_poisoned_too_few_runs_is_a_fault() -> None:
    enough = Findings(kills_in_flight=2, poisoned=1)
    assert check_effort(enough, SIZE) == []
    assert check_effort(Findings(), SIZE) == [
        "only 0 of 3 kills hit a run",
        "only 0 of 1 deadly runs were poison",
    ]
