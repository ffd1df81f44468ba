"""Thousands of waits share one connection, and all of them wake (R4.9, I8)."""

import asyncio

import pytest

from headway.core.ids import RunId
from headway.runtime import ResolveAnswer
from headway.runtime.redis.redis_runtime_store import RedisRuntimeStore
from tests.runtime.scenes import YES, Runtime, RuntimeTarget, a_claim, until
from tests.servers import RedisServer

COUNT = 2_000


@pytest.mark.proves("R4.9")
async def test_all_of_two_thousand_waits_receive_their_answer(
    runtime: Runtime, another: Runtime
) -> None:
    run_ids = [a_claim().run_id for _ in range(COUNT)]
    async with asyncio.TaskGroup() as group:
        waits = [
            group.create_task(runtime.wait_for_interrupt(run_id, "call-1")) for run_id in run_ids
        ]
        await until(lambda: _resolve(another, run_ids[-1]), what="all interrupts are open")
        answers = await asyncio.gather(
            *(_resolve_once_open(another, run_id) for run_id in run_ids[:-1])
        )
    assert all(answers)
    assert {wait.result() for wait in waits} == {YES}


async def _resolve_once_open(store: Runtime, run_id: RunId) -> bool:
    await until(lambda: _resolve(store, run_id), what="the interrupt is open")
    return True


async def _resolve(store: Runtime, run_id: RunId) -> bool:
    return await store.resolve_interrupt(run_id, "call-1", YES) is ResolveAnswer.RESOLVED


@pytest.mark.proves("I8")
@pytest.mark.backend("redis")
async def test_watchers_share_one_connection_and_leave_no_subscription(
    redis_server: RedisServer,
) -> None:
    target = RuntimeTarget("redis", redis_server.url)
    before = _subscribers(redis_server)
    async with target.open() as store:
        assert isinstance(store, RedisRuntimeStore)
        stops = [await store.watch(a_claim().run_id, lambda _hint: None) for _ in range(100)]
        assert _subscribers(redis_server) == before + 1
        assert len(store._subscriber._channels) == 100
        for stop in stops:
            stop()
        assert len(store._subscriber._channels) == 0
        await until(
            lambda: redis_server.execute("PUBSUB", "SHARDCHANNELS") == [],
            what="no channel is subscribed",
        )
        assert await store.wait_for_interrupt(a_claim().run_id, "call-1", timeout_s=0) is None
        assert not store._waits
    await until(lambda: _subscribers(redis_server) == before, what="the connection is closed")


def _subscribers(server: RedisServer) -> int:
    listed: str = server.execute("CLIENT", "LIST", "TYPE", "pubsub")
    return len(listed.splitlines())
