"""Many wait at once: over one connection, and all of them wake (R4.9, I8)."""

import asyncio

import pytest

from headway.adapters.redis.redis_runtime_store import RedisRuntimeStore
from headway.core.ids import RunId
from headway.ports.runtime_store import ResolveAnswer
from tests.runtime.scenes import YES, Place, Runtime, a_claim, until
from tests.servers import RedisServer

COUNT = 2_000


@pytest.mark.proves("R4.9")
async def test_all_of_a_crowd_wake(runtime: Runtime, another: Runtime) -> None:
    run_ids = [a_claim().run_id for _ in range(COUNT)]
    async with asyncio.TaskGroup() as group:
        waits = [
            group.create_task(runtime.wait_for_interrupt(run_id, "call-1")) for run_id in run_ids
        ]
        await until(lambda: _is_pending(another, run_ids[-1]), what="the crowd waits")
        answers = await asyncio.gather(*(_answered(another, run_id) for run_id in run_ids[:-1]))
    assert all(answers)
    assert {wait.result() for wait in waits} == {YES}


async def _answered(store: Runtime, run_id: RunId) -> bool:
    await until(lambda: _is_pending(store, run_id), what="the question is open")
    return True


async def _is_pending(store: Runtime, run_id: RunId) -> bool:
    return await store.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.RESOLVED


@pytest.mark.proves("I8")
@pytest.mark.backend("redis")
async def test_a_crowd_shares_one_connection_and_leaves_nothing(
    redis_server: RedisServer,
) -> None:
    place = Place("redis", redis_server.url)
    before = _subscribers(redis_server)
    async with place.opened() as store:
        assert isinstance(store, RedisRuntimeStore)
        stops = [await store.watch(a_claim().run_id, lambda _hint: None) for _ in range(100)]
        assert _subscribers(redis_server) == before + 1
        assert len(store._subscriber._channels) == 100
        for stop in stops:
            stop()
        assert len(store._subscriber._channels) == 0
        await until(
            lambda: redis_server.execute("PUBSUB", "SHARDCHANNELS") == [],
            what="nothing is subscribed to",
        )
        assert await store.wait_for_interrupt(a_claim().run_id, "call-1", timeout_s=0) is None
        assert not store._waits
    await until(lambda: _subscribers(redis_server) == before, what="the connection is closed")


def _subscribers(server: RedisServer) -> int:
    listed: str = server.execute("CLIENT", "LIST", "TYPE", "pubsub")
    return len(listed.splitlines())
