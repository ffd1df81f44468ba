"""The registry of workers: who is heard of is found, and who is silent for long is forgotten."""

import pytest

from headway.adapters.sql.read import read_workers
from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.flow.register_worker import PruneWorkers, RecordHeartbeat, RegisterWorker
from headway.core.ids import SECOND_US, Instant, add_seconds
from headway.core.run.events import EventType
from headway.testing import FakeClock
from tests.contract.backends import read_all
from tests.contract.scenes import together


def register(worker_id: str, *services: str) -> RegisterWorker:
    return RegisterWorker(id=worker_id, url=f"http://{worker_id}:9", services=services or ("sum",))


async def heard(store: SqlStore, since: Instant) -> list[str]:
    return [one.id for one in await store.workers.workers(heartbeat_since=since)]


@pytest.mark.proves("R5.8")
async def test_only_who_was_heard_of_is_read_and_they_come_by_their_ids(
    store: SqlStore, clock: FakeClock
) -> None:
    for name in ("c", "a", "b"):
        await store.apply(register(name))
    clock.advance(10)
    await store.apply(RecordHeartbeat(id="b", load=3))
    assert await heard(store, clock()) == ["b"]
    assert await heard(store, add_seconds(clock(), seconds=-10.0)) == ["a", "b", "c"]
    assert await heard(store, Instant(clock() - 10 * SECOND_US + 1)) == ["b"]


@pytest.mark.proves("R5.8")
async def test_of_very_many_those_who_live_are_not_hidden_by_the_dead(
    store: SqlStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_workers, "_LIVE_WORKERS", read_workers._LIVE_WORKERS.limit(2))
    for name in ("a1", "a2", "a3"):
        await store.apply(register(name))
    clock.advance(1)
    await store.apply(register("z"))
    assert "z" in await heard(store, Instant(0))


@pytest.mark.proves("I19")
async def test_who_is_silent_for_long_is_forgotten_and_nobody_else(
    store: SqlStore, clock: FakeClock
) -> None:
    for name in ("old", "older", "heard"):
        await store.apply(register(name))
    clock.advance(100)
    before = clock()
    await store.apply(RecordHeartbeat(id="heard", load=1))
    assert await store.workers.stale_workers(heartbeat_before=before, limit=1) in (
        ["old"],
        ["older"],
    )
    assert await store.workers.count_stale_workers(heartbeat_before=before) == 2
    forget = PruneWorkers(("heard", "nobody", "old", "older"), heartbeat_before=before)
    assert await store.apply(forget) == 2
    assert await heard(store, Instant(0)) == ["heard"]
    kept = await read_all(store)
    assert await store.apply(forget) == 0
    assert await read_all(store) == kept


@pytest.mark.proves("I19")
async def test_who_comes_again_while_it_is_forgotten_is_there(
    store: SqlStore, clock: FakeClock
) -> None:
    """Both orders, each in one batch."""
    for name in ("first", "last"):
        await store.apply(register(name))
    clock.advance(100)
    forget = PruneWorkers(("first", "last"), heartbeat_before=clock())
    await together(store, register("first"), forget, register("last"))
    assert await heard(store, clock()) == ["first", "last"]


@pytest.mark.proves("R5.8")
async def test_a_worker_that_only_says_again_what_is_known_is_no_event(
    store: SqlStore, clock: FakeClock
) -> None:
    async def told() -> int:
        page = await store.events.events(after_seq=0, limit=100)
        return sum(event.type == EventType.WORKER_CHANGED for event in page.events)

    await store.apply(register("w"))
    await store.apply(register("w"))
    assert await told() == 1
    await store.apply(register("w", "sum", "echo"))
    assert await told() == 2
    clock.advance(16)  # It was dead.
    await store.apply(register("w", "sum", "echo"))
    assert await told() == 3
