"""The registry of workers: recent ones are listed, and long-silent ones are removed."""

import pytest

from headway.adapters.sql.read import read_workers
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.flow.register_worker import PruneWorkers, RecordHeartbeat, RegisterWorker
from headway.core.ids import SECOND_US, Instant, add_seconds
from headway.core.run.events import EventType
from headway.testing import FakeClock
from tests.contract.backends import read_all
from tests.contract.scenes import apply_in_one_batch


def register(worker_id: str, *services: str) -> RegisterWorker:
    return RegisterWorker(id=worker_id, url=f"http://{worker_id}:9", services=services or ("sum",))


async def read_worker_ids(store: SqlStore, since: Instant) -> list[str]:
    return [worker.id for worker in await store.workers.workers(heartbeat_since=since)]


@pytest.mark.proves("R5.8")
async def test_only_workers_with_a_recent_heartbeat_are_read_ordered_by_id(
    store: SqlStore, clock: FakeClock
) -> None:
    for name in ("c", "a", "b"):
        await store.apply(register(name))
    clock.advance(10)
    await store.apply(RecordHeartbeat(id="b", load=3))
    assert await read_worker_ids(store, clock()) == ["b"]
    assert await read_worker_ids(store, add_seconds(clock(), seconds=-10.0)) == ["a", "b", "c"]
    assert await read_worker_ids(store, Instant(clock() - 10 * SECOND_US + 1)) == ["b"]


@pytest.mark.proves("R5.8")
async def test_live_workers_are_listed_among_very_many_dead_ones(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_workers, "_LIVE_WORKERS", read_workers._LIVE_WORKERS.limit(2))
    for name in ("a1", "a2", "a3"):
        await store.apply(register(name))
    clock.advance(1)
    await store.apply(register("z"))
    assert "z" in await read_worker_ids(store, Instant(0))


@pytest.mark.proves("I19")
async def test_only_workers_without_a_recent_heartbeat_are_removed(
    store: SqlStore, clock: FakeClock
) -> None:
    for name in ("old", "older", "recent"):
        await store.apply(register(name))
    clock.advance(100)
    before = clock()
    await store.apply(RecordHeartbeat(id="recent", load=1))
    assert await store.workers.stale_workers(heartbeat_before=before, limit=1) in (
        ["old"],
        ["older"],
    )
    assert await store.workers.count_stale_workers(heartbeat_before=before) == 2
    forget = PruneWorkers(("recent", "unknown", "old", "older"), heartbeat_before=before)
    assert await store.apply(forget) == 2
    assert await read_worker_ids(store, Instant(0)) == ["recent"]
    stored = await read_all(store)
    assert await store.apply(forget) == 0
    assert await read_all(store) == stored


@pytest.mark.proves("I19")
async def test_worker_that_registers_during_its_removal_stays(
    store: SqlStore, clock: FakeClock
) -> None:
    """In one batch, one worker registers before the removal and another one after it."""
    for name in ("first", "last"):
        await store.apply(register(name))
    clock.advance(100)
    forget = PruneWorkers(("first", "last"), heartbeat_before=clock())
    await apply_in_one_batch(store, register("first"), forget, register("last"))
    assert await read_worker_ids(store, clock()) == ["first", "last"]


@pytest.mark.proves("R5.8")
async def test_repeated_registration_without_a_change_emits_no_event(
    store: SqlStore, clock: FakeClock
) -> None:
    async def count_events() -> int:
        page = await store.events.events(after_seq=0, limit=100)
        return sum(event.type == EventType.WORKER_CHANGED for event in page.events)

    await store.apply(register("w"))
    await store.apply(register("w"))
    assert await count_events() == 1
    await store.apply(register("w", "sum", "echo"))
    assert await count_events() == 2
    clock.advance(16)  # It was dead.
    await store.apply(register("w", "sum", "echo"))
    assert await count_events() == 3
