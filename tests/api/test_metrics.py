"""Figures for Prometheus: what they count, and what they never name."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headway.api.metrics import LANE_COUNT_MAX, OTHER_LANES, Metrics
from headway.core.ids import LaneName
from tests.api.client import Client

pytestmark = pytest.mark.backend("sqlite")


def samples(text: Any) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and the values of its labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_r1_10_figures_follow_what_happens(client: Client) -> None:
    done = await client.submitted("echo", key="secret-key")
    await client.ended(done)
    at_work = await client.submitted("stay", key="ann")
    await client.begun(at_work)
    asking = await client.submitted("ask")
    await client.told(asking, "permission_request")
    answer = await client.get("/metrics")
    async with asyncio.timeout(20):
        while samples(answer.body)["headway_lane_waiting", "main"] == 0:  # It gives up its place.
            await asyncio.sleep(0.05)
            answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.body)
    assert found["headway_runs_total", "main", "succeeded"] == 1
    assert found["headway_queue_wait_seconds_count", "main"] == 3
    assert found["headway_run_duration_seconds_count", "main"] == 1
    assert found["headway_lane_running", "main"] == 1
    assert found["headway_lane_waiting", "main"] == 1
    assert found["headway_lane_capacity", "main"] == 3
    assert (found["headway_interrupts",], found["headway_instances",]) == (1, 1)
    assert found["headway_http_requests_total", "201"] == 3
    for hidden in ("secret-key", done, at_work):
        assert hidden not in answer.body


def test_there_is_an_end_of_labels() -> None:
    metrics = Metrics()
    labels = {metrics.lane(LaneName(f"tenant-{n}")) for n in range(1_000)}
    assert len(labels) == LANE_COUNT_MAX + 1
    assert OTHER_LANES in labels
