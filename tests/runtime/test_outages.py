"""Redis fails and returns: errors are clear, and waits wake (I3, I20, I22)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from headway.core.errors import InfrastructureError, RuntimeUnavailable, StoreClosed
from headway.core.ids import RunId
from headway.runtime import SHUTDOWN_ANSWER, Hint, ResolveAnswer
from headway.runtime.redis import pipeline, pubsub_connection, subscriber
from headway.runtime.redis.redis_runtime_store import RedisRuntimeStore
from tests.runtime.scenes import YES, Runtime, a_claim, a_key, open_runtime, until, until_waiting
from tests.servers import RedisServer, start_redis
from tests.servers.fixture import running

pytestmark = pytest.mark.backend("redis")
# The server keeps every confirmed write, also if it is killed.
DURABLE = {"appendonly": "yes", "appendfsync": "always"}


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server that tests may kill or pause. Each test leaves it running, perhaps empty."""
    yield from running(lambda: start_redis(settings={"maxclients": "1000"}), request)


@pytest.fixture(scope="module")
def durable_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    yield from running(lambda: start_redis(settings=DURABLE), request)


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a server that does not answer within less than a second."""
    for module in (pipeline, pubsub_connection):
        monkeypatch.setattr(module, "CALL_TIMEOUT_S", 0.5)
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 0.5)
    monkeypatch.setattr(pubsub_connection, "PING_INTERVAL_S", 0.2)
    monkeypatch.setattr(pubsub_connection, "SILENCE_MAX_S", 0.7)


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisRuntimeStore]:
    async with open_runtime(server.url) as store:
        assert isinstance(store, RedisRuntimeStore)
        yield store


@pytest.fixture
async def another(server: RedisServer) -> AsyncIterator[Runtime]:
    async with open_runtime(server.url) as store:
        yield store


async def _answers(store: Runtime) -> bool:
    try:
        await store.is_cancelled(a_claim().run_id)
    except RuntimeUnavailable:
        return False
    return True


@pytest.mark.proves("I20")
async def test_every_call_to_a_killed_server_raises_one_clear_error(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    key, claim = a_key(), a_claim()
    await store.acquire_lease(key, claim)
    server.kill()
    try:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.acquire_lease(key, claim),
            lambda: store.renew_lease(key, claim),
            lambda: store.wait_for_interrupt(claim.run_id, "call-1"),
            lambda: store.drain_messages(claim),
            lambda: store.watch(claim.run_id, lambda _hint: None),
            lambda: store.cleanup_execution(key, claim),
        ]
        for call in calls:
            with pytest.raises(RuntimeUnavailable) as refused:
                await call()
            assert isinstance(refused.value, InfrastructureError)
            assert str(refused.value).startswith(f"Redis at 127.0.0.1:{server.port} cannot be used")
    finally:
        server.restart()
    await until(lambda: _answers(store), what="the store works again")
    assert await store.acquire_lease(key, claim) is None


@pytest.mark.proves("I20")
@pytest.mark.usefixtures("short_timeouts")
async def test_call_to_a_server_that_does_not_answer_times_out(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    assert await _answers(store)
    server.pause()
    try:
        refused = await asyncio.gather(
            *(store.is_cancelled(a_claim().run_id) for _ in range(2_000)),
            store.wait_for_interrupt(a_claim().run_id, "call-1"),
            return_exceptions=True,
        )
    finally:
        server.resume()
    assert {type(error) for error in refused} == {RuntimeUnavailable}
    assert "the server did not answer within" in str(refused[0])
    await until(lambda: _answers(store), what="the store works again")


@pytest.mark.proves("I22")
async def test_wait_survives_a_server_that_restarts_empty(
    server: RedisServer, store: RedisRuntimeStore, another: Runtime
) -> None:
    run_id = a_claim().run_id
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
        server.kill()
        server.restart()
        # The store opens the interrupt again as soon as it is reconnected.
        await until(lambda: _resolves(another, run_id), what="the interrupt is open again")
    assert wait.result() == YES


@pytest.mark.proves("I22")
@pytest.mark.usefixtures("short_timeouts")
async def test_wait_survives_a_server_that_did_not_answer(
    server: RedisServer, store: RedisRuntimeStore, another: Runtime
) -> None:
    run_id = a_claim().run_id
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
        (connection,) = store._subscriber._connections.values()
        had_received = connection.has_received
        server.pause()
        try:
            await until(
                lambda: connection.has_received is False, what="the silent connection is given up"
            )
        finally:
            server.resume()
        await until(lambda: _resolves(another, run_id), what="the interrupt is answered")
    assert had_received
    assert wait.result() == YES


@pytest.mark.proves("I3")
async def test_answer_given_while_disconnected_is_found(
    server: RedisServer,
    store: RedisRuntimeStore,
    another: Runtime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriber, "RETRY_MIN_S", 0.5)
    run_id = a_claim().run_id
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
        assert server.execute("CLIENT", "KILL", "TYPE", "pubsub") == 1
        # No subscriber receives this: the connection is down for half a second.
        answer = await another.resolve_interrupt(run_id, "call-1", YES)
        assert answer is ResolveAnswer.RESOLVED
    assert wait.result() == YES


@pytest.mark.proves("I3")
async def test_accepted_answer_survives_a_restart_of_a_durable_server(
    durable_server: RedisServer,
) -> None:
    run_id = a_claim().run_id
    async with (
        open_runtime(durable_server.url) as store,
        open_runtime(durable_server.url) as another,
    ):
        async with asyncio.TaskGroup() as group:
            wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
            await until_waiting(store, run_id, "call-1")
            durable_server.execute("CLIENT", "KILL", "TYPE", "pubsub")
            answer = await another.resolve_interrupt(run_id, "call-1", YES)
            durable_server.kill()
            durable_server.restart()
        assert answer is ResolveAnswer.RESOLVED
        assert wait.result() == YES


async def test_watcher_receives_a_resync_hint_after_a_disconnect(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    hints: list[Hint] = []
    await store.watch(a_claim().run_id, hints.append)
    server.execute("CLIENT", "KILL", "TYPE", "pubsub")
    await until(lambda: bool(hints), what="the watcher receives a hint")
    assert hints == [Hint.RESYNC]


@pytest.mark.proves("I22")
async def test_lease_is_lost_and_the_interrupt_reopened_after_the_server_is_flushed(
    server: RedisServer, store: RedisRuntimeStore, another: Runtime
) -> None:
    key, claim = a_key(), a_claim()
    await store.acquire_lease(key, claim)
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(store.wait_for_interrupt(claim.run_id, "call-1"))
        await until_waiting(store, claim.run_id, "call-1")
        server.execute("FLUSHALL")
        assert not await store.renew_lease(key, claim)
        assert await store.acquire_lease(key, claim) is None
        lost = await another.resolve_interrupt(claim.run_id, "call-1", YES)
        assert lost is ResolveAnswer.NOT_WAITING
        await another.publish_hint(claim.run_id, Hint.RESYNC)
        await until(lambda: _resolves(another, claim.run_id), what="the interrupt is open again")
    assert wait.result() == YES


async def test_wait_checks_regularly_without_hints(
    server: RedisServer, another: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.runtime.redis.redis_runtime_store.CHECK_INTERVAL_S", 0.05)
    run_id = a_claim().run_id
    async with open_runtime(server.url) as store, asyncio.TaskGroup() as group:
        wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
        server.execute("FLUSHALL")
        await until(lambda: _resolves(another, run_id), what="the interrupt is open again")
    assert wait.result() == YES


async def test_connections_closed_by_the_server_are_replaced(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    claims = [a_claim() for _ in range(20)]
    await asyncio.gather(*(store.request_cancel(claim.run_id) for claim in claims))
    assert server.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") >= 1
    await until(lambda: _answers(store), what="the store works again")
    assert await store.is_cancelled(claims[0].run_id)


@pytest.mark.proves("I20")
async def test_wait_that_times_out_during_an_outage_raises_an_error(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    run_id = a_claim().run_id
    wait = asyncio.create_task(store.wait_for_interrupt(run_id, "call-1", timeout_s=1))
    await until_waiting(store, run_id, "call-1")
    server.kill()
    try:
        await asyncio.wait({wait})
    finally:
        server.restart()
    with pytest.raises(RuntimeUnavailable):
        await wait


@pytest.mark.proves("R4.9")
async def test_shutdown_ends_waits_without_a_server(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    run_id = a_claim().run_id
    async with asyncio.TaskGroup() as group:
        wait = group.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
        server.kill()
        try:
            await store.shutdown_cleanup()
            await asyncio.wait({wait})
        finally:
            server.restart()
    assert wait.result() == SHUTDOWN_ANSWER


@pytest.mark.proves("I8")
async def test_closing_the_store_ends_every_pending_call(server: RedisServer) -> None:
    run_id = a_claim().run_id
    async with open_runtime(server.url) as store:
        wait = asyncio.create_task(store.wait_for_interrupt(run_id, "call-1"))
        await until_waiting(store, run_id, "call-1")
        server.pause()
        try:
            call = asyncio.create_task(store.is_cancelled(run_id))
            watch = asyncio.create_task(store.watch(a_claim().run_id, lambda _hint: None))
            await asyncio.sleep(0)
            assert isinstance(store, RedisRuntimeStore)
            await store.close()
            await asyncio.wait({wait, call, watch})
        finally:
            server.resume()
    assert wait.result() == SHUTDOWN_ANSWER
    assert isinstance(call.exception(), StoreClosed)
    assert isinstance(watch.exception(), StoreClosed)
    with pytest.raises(StoreClosed):
        await store.is_cancelled(run_id)


async def test_wrong_password_is_reported(server: RedisServer) -> None:
    server.execute("ACL", "SETUSER", "ann", "on", ">right", "~*", "&*", "+@all")
    async with open_runtime(server.url.replace("://", "://ann:right@")) as store:
        assert await _answers(store)
    async with open_runtime(server.url.replace("://", "://ann:wrong@")) as store:
        with pytest.raises(RuntimeUnavailable, match="cannot be used: invalid username-password"):
            await store.is_cancelled(a_claim().run_id)
        with pytest.raises(RuntimeUnavailable, match="cannot be used: invalid username-password"):
            await store.watch(a_claim().run_id, lambda _hint: None)


async def _resolves(store: Runtime, run_id: RunId) -> bool:
    try:
        answer = await store.resolve_interrupt(run_id, "call-1", YES)
    except RuntimeUnavailable:
        return False
    return answer is ResolveAnswer.RESOLVED


@pytest.mark.proves("I20")
async def test_subscriptions_are_not_queued_while_the_connection_is_lost(
    server: RedisServer, store: RedisRuntimeStore
) -> None:
    stop = await store.watch(a_claim().run_id, lambda _: None)
    (connection,) = store._subscriber._connections.values()
    server.kill()
    try:
        await until(lambda: connection._is_connected is False, what="the connection is down")
        watches = (store.watch(a_claim().run_id, lambda _: None) for _ in range(100))
        refused = await asyncio.gather(*watches, return_exceptions=True)
    finally:
        server.restart()
    assert {type(error) for error in refused} == {RuntimeUnavailable}
    assert not connection._outbox
    stop()
