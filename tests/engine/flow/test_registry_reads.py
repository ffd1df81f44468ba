"""The worker registry is read at most once per second, not for every failed call or poll."""

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from headway.adapters.system.system_clock import SystemClock
from headway.core.flow.engine.effects import CallService
from headway.core.flow.engine.inputs import Failed
from headway.core.ids import Instant, RunId
from headway.core.worker.saved_worker import LiveWorker
from headway.ports.flow_reader import FlowReader
from headway.ports.store import Store
from headway.services.flow.flow_clock import FlowClock
from headway.services.flow.worker_watch import WorkerWatch
from headway.services.flow.workers import REGISTRY_MAX_AGE_S, Workers

CALL = CallService("0.0.1.1", "s", None, {}, 1, 1, (), prefers_least_load=False, deadline_at=None)


class Registry:
    """A worker registry that counts its reads."""

    def __init__(self, *worker_ids: str) -> None:
        now = SystemClock().now()
        self.live = [
            LiveWorker(worker_id, "http://w", frozenset({"s"}), 0, now) for worker_id in worker_ids
        ]
        self.read_count = 0
        self._begun_s = time.monotonic()

    async def workers(self, *, heartbeat_since: Instant) -> Sequence[LiveWorker]:
        self.read_count += 1
        return [worker for worker in self.live if worker.heartbeat_at >= heartbeat_since]

    async def stale_workers(self, *, heartbeat_before: Instant, limit: int) -> Sequence[str]:
        raise NotImplementedError

    async def count_stale_workers(self, *, heartbeat_before: Instant) -> int:
        raise NotImplementedError

    @property
    def read_count_max(self) -> int:
        """One read, plus one for each second that has passed."""
        return 1 + int((time.monotonic() - self._begun_s) / REGISTRY_MAX_AGE_S)


class FailingClient:
    """Fails every call, after it has called `before_response`."""

    def __init__(self) -> None:
        self.before_response: Callable[[], None] = lambda: None

    async def post(self, *_: object, **__: object) -> tuple[int, bytes]:
        self.before_response()
        return 200, b'{"error": "broken"}'

    async def close(self) -> None:
        pass


def make_workers(registry: Registry, client: FailingClient | None = None) -> Workers:
    used_client = client or FailingClient()
    clock = FlowClock(SystemClock())
    return Workers(cast(Store, None), registry, clock, make_client=lambda: used_client)


async def call_to_failure(workers: Workers, call: CallService = CALL) -> Failed:
    outcome = await workers.call(
        call, run_id=RunId("r"), generation=1, report_progress=lambda _: None
    )
    assert isinstance(outcome, Failed)
    return outcome


async def test_failed_calls_share_one_read_of_the_registry() -> None:
    registry = Registry("w")
    workers = make_workers(registry)
    outcomes = [await call_to_failure(workers) for _ in range(200)]
    assert all(outcome.is_last_worker for outcome in outcomes), "there is no other worker"
    assert registry.read_count <= registry.read_count_max < 200


async def test_a_failure_reports_whether_another_worker_is_available() -> None:
    workers = make_workers(Registry("v", "w"))
    first = await call_to_failure(workers)
    assert first.worker is not None
    assert not first.is_last_worker
    second = await call_to_failure(workers, CALL._replace(attempt=2, excluded=(first.worker.id,)))
    assert second.is_last_worker


@pytest.mark.parametrize("may_try_another", [True, False])
async def test_the_registry_is_not_read_if_no_other_worker_may_be_tried(
    may_try_another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, client = Registry("w"), FailingClient()
    workers = make_workers(registry, client)
    times = [100.0]
    clock = SimpleNamespace(monotonic=lambda: times[-1])
    monkeypatch.setattr("headway.services.flow.workers.time", clock)
    client.before_response = lambda: times.append(times[-1] + 10 * REGISTRY_MAX_AGE_S)
    outcome = await call_to_failure(workers, CALL._replace(may_try_another_worker=may_try_another))
    assert (outcome.is_last_worker, registry.read_count) == (
        (True, 2) if may_try_another else (False, 1)
    )


async def test_the_worker_watch_shares_reads_with_calls() -> None:
    registry = Registry()
    workers = make_workers(registry)
    watch = WorkerWatch(cast(Store, None), cast(FlowReader, None), workers)
    for _ in range(50):
        await watch.poll()
        assert not await workers.filter_offered({"s"})
    assert registry.read_count <= registry.read_count_max < 50
