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
async def test_watcher_follows_a_hash_slot_that_moves_to_another_node(
    redis_cluster: RedisCluster,
) -> None:
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
        for node in (target, source, *redis_cluster.nodes):
            node.execute("CLUSTER", "SETSLOT", slot, "NODE", _node_id(target))
        # The old owner ends the subscription, and the store subscribes at the new owner.
        await until(lambda: Hint.RESYNC in hints, what="the watcher is subscribed again")
        hints.clear()
        await another.publish_hint(run_id, Hint.CANCEL)
        await until(lambda: Hint.CANCEL in hints, what="the hint is received")


@pytest.mark.proves("R4.12")
async def test_call_follows_keys_that_are_being_migrated(redis_cluster: RedisCluster) -> None:
    claim = a_claim()
    slot = str(key_slot(channel_name(claim.run_id)))
    source = _owner(redis_cluster, claim.run_id)
    target = next(node for node in redis_cluster.nodes if node is not source)
    async with open_runtime(url_of(redis_cluster)) as store:
        target.execute("CLUSTER", "SETSLOT", slot, "IMPORTING", _node_id(source))
        source.execute("CLUSTER", "SETSLOT", slot, "MIGRATING", _node_id(target))
        try:  # The source has none of the keys, and refers every call to the target.
            target.execute("SCRIPT", "FLUSH")
            assert not await store.is_cancelled(claim.run_id)
            assert await store.drain_messages(claim) == ()
        finally:
            for node in (target, source):
                node.execute("CLUSTER", "SETSLOT", slot, "STABLE")


async def test_url_of_a_single_cluster_server_is_reported_as_a_wrong_url(
    redis_cluster: RedisCluster,
) -> None:
    elsewhere = redis_cluster.nodes[0]
    run_ids = (a_claim().run_id for _ in range(100))
    run_id = next(run_id for run_id in run_ids if _owner(redis_cluster, run_id) is not elsewhere)
    async with open_runtime(elsewhere.url) as store:
        with pytest.raises(RuntimeUnavailable, match=r"write redis\+cluster:// in the URL"):
            await store.is_cancelled(run_id)


def _node_id(node: RedisServer) -> str:
    return str(node.execute("CLUSTER", "MYID"))


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
