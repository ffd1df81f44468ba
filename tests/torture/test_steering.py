"""The short form of the steering torture: every fault of Redis, once."""

from collections.abc import Iterator

import pytest

from tests.servers import RedisServer
from tests.torture.claims import Size
from tests.torture.engines import engines
from tests.torture.places import PLACES
from tests.torture.redis_faults import FAULTS
from tests.torture.steering import steering

pytestmark = pytest.mark.backend("redis")


@pytest.fixture
def urls() -> Iterator[list[str]]:
    with PLACES["sqlite"]() as urls:
        yield urls


def _no_step(_: int) -> None:
    """Ignore the progress."""


@pytest.mark.proves("I3", "I22")
@pytest.mark.timeout(240)
async def test_no_accepted_message_is_lost_when_redis_fails(urls: list[str]) -> None:
    size = Size(run_count=0, kill_count=len(FAULTS))
    findings = await steering(urls, size, _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.outages == len(FAULTS)
    assert findings.accepted > 0


@pytest.mark.proves("I3", "I22")
@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_no_accepted_message_is_lost_when_a_cluster_master_fails(urls: list[str]) -> None:
    findings = await steering(urls, Size(run_count=0, failover_count=1), _no_step)
    assert (findings.violations, findings.faults) == (0, [])
    assert findings.outages == 1


@pytest.mark.proves("R4.13")
@pytest.mark.timeout(240)
async def test_an_instance_that_was_paused_past_its_lease_releases_its_runs(
    urls: list[str], redis_server: RedisServer
) -> None:
    size = Size(run_count=30, pause_count=1, process_count=3, key_count=50)
    findings = await engines(urls, size, _no_step, redis_url=redis_server.url)
    assert (findings.violations, findings.faults) == (0, [])
