"""The short form of the torture: enough processes, kills and keys to notice what breaks."""

from collections.abc import Iterator

import pytest

from tests.torture.claims import Size, torture
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
    """Nobody watches."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", BACKENDS)
async def test_i4_i5_i9_i13_processes_share_a_database(urls: list[str]) -> None:
    size = Size(run_count=400, process_count=4, key_count=50)
    findings = await torture(urls, size, _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.accepted == findings.runs == size.run_count


@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", BACKENDS)
async def test_i3_i8_nothing_is_lost_when_processes_are_killed(urls: list[str]) -> None:
    size = Size(run_count=100_000, kill_count=3, process_count=4, key_count=50)
    findings = await torture(urls, size, _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.accepted > 0
