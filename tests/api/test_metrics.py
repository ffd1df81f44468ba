"""Figures for Prometheus: what they count, and what they never name."""

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headway.api.routes.metrics import LANE_COUNT_MAX, OTHER_LABEL, Metrics
from headway.core.command.admin.instance import DeclareDead
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


@pytest.mark.proves("R1.10")
async def test_figures_follow_what_happens(client: Client) -> None:
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


@pytest.mark.proves("R1.10")
async def test_answers_are_timed_by_the_path_of_the_call(client: Client) -> None:
    """And by nothing that a caller could make up, or that names what he asked for."""
    run_id = await client.submitted("echo", key="secret-key")
    await client.get(f"/api/runs/{run_id}")
    await client.call("HEAD", f"/api/runs/{run_id}")
    await client.get("/api/runs?limit=0")
    await client.get("/api/lanes/a/b%20c")
    for path in ("/nowhere", "/api/nowhere", "/ui/nowhere"):
        await client.call("BREW", path)
    await client.get("/tasks/get?id=x")
    told = samples((await client.get("/metrics")).body)
    name = "headway_http_request_duration_seconds_count"
    timed = {labels[1:]: count for labels, count in told.items() if labels[0] == name}
    assert timed == {
        ("POST", "/api/runs"): 1,
        ("GET", "/api/runs/{run_id}"): 2,
        ("GET", "/api/runs"): 1,
        ("GET", "/api/lanes/{name}"): 1,
        ("(other)", "(other)"): 3,
        ("GET", "/tasks/get"): 1,
    }


@pytest.mark.proves("I15")
async def test_a_submission_that_is_refused_is_timed_as_one(client: Client) -> None:
    await client.post("/api/runs", {"job": 5})
    told = samples((await client.get("/metrics")).body)
    assert told["headway_http_request_duration_seconds_count", "POST", "/api/runs"] == 1


@pytest.mark.proves("R1.10")
async def test_lost_leases_and_conflicts_are_counted(client: Client) -> None:
    """Each once, however often it is asked for."""
    store = client.hw.store
    before = samples((await client.get("/metrics")).body)
    assert (before["headway_lease_lost_total",], before["headway_cas_conflicts_total",]) == (0, 0)
    (mine,) = await store.runs.instances()
    await store.apply(DeclareDead(mine.id, is_proven=True))
    store.renew_lease()
    while [one.id for one in await store.runs.instances()] in ([], [mine.id]):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    store.writer.conflict_count += 2
    for _ in range(2):
        found = samples((await client.get("/metrics")).body)
        assert found["headway_lease_lost_total",] == 1
        assert found["headway_cas_conflicts_total",] == 2


def test_there_is_an_end_of_labels() -> None:
    metrics = Metrics()
    labels = {metrics.lane_label(LaneName(f"tenant-{n}")) for n in range(1_000)}
    assert len(labels) == LANE_COUNT_MAX + 1
    assert OTHER_LABEL in labels
