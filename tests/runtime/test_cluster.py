"""A cluster changes at run time: slots move, a master is killed (R4.12, I22)."""

import asyncio
from collections.abc import Iterator

import pytest
from redis.crc import key_slot

from headway.core.errors import RuntimeUnavailable
from headway.core.ids import RunId
from headway.runtime import Hint, ResolveAnswer
from headway.runtime.redis.key_names import channel_name
from tests.runtime.conftest import url_of
from tests.runtime.scenes import YES, Runtime, a_claim, open_runtime, until, until_waiting
from tests.servers import RedisCluster, RedisServer, start_redis_cluster
from tests.servers.fixture import running

pytestmark = pytest.mark.backend("redis-cluster")


@pytest.fixture(scope="module")
def replicated(request: pytest.FixtureRequest) -> Iterator[RedisCluster]:
    yield from running(lambda: start_redis_cluster(replicas=1), request)


def _owner(cluster: RedisCluster, run_id: RunId) -> RedisServer:
    slot = key_slot(channel_name(run_id))
    for node in cluster.nodes:
        if not node.answers():
            continue
        for first, last, (_, port, *_), *_ in node.execute("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(other for other in cluster.nodes if other.port == port)
    raise AssertionError("no node owns the slot")


@pytest.mark.proves("R4.12")
async def test_watcher_follows_a_slot_that_moves(redis_cluster: RedisCluster) -> None:
    run_id = a_claim().run_id
    slot = str(key_slot(channel_name(run_id)))
    hints: list[Hint] = []
    async with (
        open_runtime(url_of(redis_cluster)) as store,
        open_runtime(url_of(redis_cluster)) as another,
    ):
        await store.watch(run_id, hints.append)
        source = _owner(redis_cluster, run_id)
        target = next(node for node in redis_cluster.nodes if node is not source)
        target_id = str(target.execute("CLUSTER", "MYID"))
        for node in (target, source, *redis_cluster.nodes):
            node.execute("CLUSTER", "SETSLOT", slot, "NODE", target_id)
        # The old owner ends the subscription, and the store subscribes at the new owner.
        await until(lambda: Hint.RESYNC in hints, what="the watcher is subscribed again")
        hints.clear()
        await another.publish_hint(run_id, Hint.CANCEL)
        await until(lambda: Hint.CANCEL in hints, what="the hint is received")


@pytest.mark.proves("I22")
@pytest.mark.slow
async def test_wait_survives_the_loss_of_a_master(replicated: RedisCluster) -> None:
    run_id = a_claim().run_id
    async with (
        open_runtime(url_of(replicated)) as store,
        open_runtime(url_of(replicated)) as another,
    ):
        async with asyncio.TaskGroup() as group:
            wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
            await until_waiting(store, run_id, "call-1")
            _owner(replicated, run_id).kill()
            # Until the replica takes over, an answer raises RuntimeUnavailable.
            await until(lambda: _resolves(another, run_id), what="the question can be answered")
        assert wait.result() == YES
        elsewhere = await asyncio.gather(*(another.is_cancelled(a_claim().run_id) for _ in "abc"))
        assert elsewhere == [False, False, False]


async def _resolves(store: Runtime, run_id: RunId) -> bool:
    try:
        answer = await store.resolve_interrupt(run_id, "call-1", YES)
    except RuntimeUnavailable:
        return False
    return answer is ResolveAnswer.RESOLVED
