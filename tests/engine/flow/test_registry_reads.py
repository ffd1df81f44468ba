"""How often the registry of workers is read: not for every call that fails, nor for every look."""

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
    """Where workers are read from, and each read is counted."""

    def __init__(self, *worker_ids: str) -> None:
        now = SystemClock().now()
        self.live = [LiveWorker(one, "http://w", frozenset({"s"}), 0, now) for one in worker_ids]
        self.read_count = 0
        self._begun_s = time.monotonic()

    async def workers(self, *, heartbeat_since: Instant) -> Sequence[LiveWorker]:
        self.read_count += 1
        return [one for one in self.live if one.heartbeat_at >= heartbeat_since]

    async def stale_workers(self, *, heartbeat_before: Instant, limit: int) -> Sequence[str]:
        raise NotImplementedError

    async def count_stale_workers(self, *, heartbeat_before: Instant) -> int:
        raise NotImplementedError

    @property
    def read_count_max(self) -> int:
        """One read, and another one in each second that has passed."""
        return 1 + int((time.monotonic() - self._begun_s) / REGISTRY_MAX_AGE_S)


class FailingClient:
    """Every call is answered with an error, after `meanwhile`."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    async def post(self, *_: object, **__: object) -> tuple[int, bytes]:
        self.meanwhile()
        return 200, b'{"error": "broken"}'

    async def close(self) -> None:
        pass


def the_workers(registry: Registry, client: FailingClient | None = None) -> Workers:
    made = client or FailingClient()
    clock = FlowClock(SystemClock())
    return Workers(cast(Store, None), registry, clock, make_client=lambda: made)


async def failure(workers: Workers, call: CallService = CALL) -> Failed:
    ended = await workers.call(
        call, run_id=RunId("r"), generation=1, report_progress=lambda _: None
    )
    assert isinstance(ended, Failed)
    return ended


async def test_calls_that_fail_share_one_read_of_the_registry() -> None:
    registry = Registry("w")
    workers = the_workers(registry)
    ends = [await failure(workers) for _ in range(200)]
    assert all(one.is_last_worker for one in ends), "there is no other worker"
    assert registry.read_count <= registry.read_count_max < 200


async def test_a_failure_tells_whether_there_is_another_worker_to_ask() -> None:
    workers = the_workers(Registry("v", "w"))
    first = await failure(workers)
    assert first.worker is not None
    assert not first.is_last_worker
    second = await failure(workers, CALL._replace(attempt=2, excluded=(first.worker.id,)))
    assert second.is_last_worker


@pytest.mark.parametrize("may_ask_another", [True, False])
async def test_the_registry_is_not_read_for_another_worker_if_none_is_asked(
    may_ask_another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, client = Registry("w"), FailingClient()
    workers = the_workers(registry, client)
    times = [100.0]
    clock = SimpleNamespace(monotonic=lambda: times[-1])
    monkeypatch.setattr("headway.services.flow.workers.time", clock)
    client.meanwhile = lambda: times.append(times[-1] + 10 * REGISTRY_MAX_AGE_S)
    ended = await failure(workers, CALL._replace(may_try_another_worker=may_ask_another))
    assert (ended.is_last_worker, registry.read_count) == (
        (True, 2) if may_ask_another else (False, 1)
    )


async def test_the_watch_for_workers_shares_the_reads_of_the_calls() -> None:
    registry = Registry()
    workers = the_workers(registry)
    watch = WorkerWatch(cast(Store, None), cast(FlowReader, None), workers)
    for _ in range(50):
        await watch.poll()
        assert not await workers.filter_offered({"s"})
    assert registry.read_count <= registry.read_count_max < 50
