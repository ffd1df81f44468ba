"""Prometheus metrics: their values, and the names that they must not contain."""

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
    """Return the value of each sample by its name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.proves("R1.10")
async def test_metrics_count_runs_by_their_state(client: Client) -> None:
    done_id = await client.submit("echo", key="secret-key")
    await client.wait_for_end(done_id)
    running_id = await client.submit("stay", key="ann")
    await client.wait_until_running(running_id)
    asking = await client.submit("ask")
    await client.wait_for_event(asking, "permission_request")
    answer = await client.get("/metrics")
    async with asyncio.timeout(20):
        while (
            samples(answer.body)["headway_lane_waiting", "main"] == 0
        ):  # Until the run has released its slot.
            await asyncio.sleep(0.05)
            answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    metrics = samples(answer.body)
    assert metrics["headway_runs_total", "main", "succeeded"] == 1
    assert metrics["headway_queue_wait_seconds_count", "main"] == 3
    assert metrics["headway_run_duration_seconds_count", "main"] == 1
    assert metrics["headway_lane_running", "main"] == 1
    assert metrics["headway_lane_waiting", "main"] == 1
    assert metrics["headway_lane_capacity", "main"] == 3
    assert (metrics["headway_interrupts",], metrics["headway_instances",]) == (1, 1)
    assert metrics["headway_http_requests_total", "201"] == 3
    for hidden in ("secret-key", done_id, running_id):
        assert hidden not in answer.body


@pytest.mark.proves("R1.10")
async def test_request_durations_are_measured_per_route(client: Client) -> None:
    """Labels contain nothing that a caller can choose, and no names or ids."""
    run_id = await client.submit("echo", key="secret-key")
    await client.get(f"/api/runs/{run_id}")
    await client.call("HEAD", f"/api/runs/{run_id}")
    await client.get("/api/runs?limit=0")
    await client.get("/api/lanes/a/b%20c")
    for path in ("/nowhere", "/api/nowhere", "/ui/nowhere"):
        await client.call("PROPFIND", path)
    await client.get("/tasks/get?id=x")
    metrics = samples((await client.get("/metrics")).body)
    name = "headway_http_request_duration_seconds_count"
    timed = {labels[1:]: count for labels, count in metrics.items() if labels[0] == name}
    assert timed == {
        ("POST", "/api/runs"): 1,
        ("GET", "/api/runs/{run_id}"): 2,
        ("GET", "/api/runs"): 1,
        ("GET", "/api/lanes/{name}"): 1,
        ("(other)", "(other)"): 3,
        ("GET", "/tasks/get"): 1,
    }


@pytest.mark.proves("I15")
async def test_refused_submission_is_timed(client: Client) -> None:
    await client.post("/api/runs", {"job": 5})
    metrics = samples((await client.get("/metrics")).body)
    assert metrics["headway_http_request_duration_seconds_count", "POST", "/api/runs"] == 1


@pytest.mark.proves("R1.10")
async def test_lost_leases_and_conflicts_are_counted(client: Client) -> None:
    """Each is counted once, however often the metrics are read."""
    store = client.hw.store
    before = samples((await client.get("/metrics")).body)
    assert (before["headway_lease_lost_total",], before["headway_cas_conflicts_total",]) == (0, 0)
    (own,) = await store.runs.instances()
    await store.apply(DeclareDead(own.id, is_proven=True))
    store.renew_lease()
    while [instance.id for instance in await store.runs.instances()] in ([], [own.id]):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    store.writer.conflict_count += 2
    for _ in range(2):
        metrics = samples((await client.get("/metrics")).body)
        assert metrics["headway_lease_lost_total",] == 1
        assert metrics["headway_cas_conflicts_total",] == 2


def test_number_of_lane_labels_is_limited() -> None:
    metrics = Metrics()
    labels = {metrics.lane_label(LaneName(f"tenant-{n}")) for n in range(1_000)}
    assert len(labels) == LANE_COUNT_MAX + 1
    assert OTHER_LABEL in labels
