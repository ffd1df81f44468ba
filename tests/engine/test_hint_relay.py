"""Hints across instances through Redis: a commit reaches the executor of the run at once.

Two instances share one SQLite file, which sends no hints. Where polls are an hour apart, only Redis
can cause the observed effect. Without Redis, polls are fast and everything still arrives.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import pytest

from headway import ConfigurationError, Headway, RunContext, RunHandle
from headway.core.ids import Key
from headway.core.run.status import RunStatus
from headway.runtime.redis.key_names import lease_name
from headway.services.engine import engine, hint_relay
from tests.runtime.conftest import url_of
from tests.runtime.scenes import a_claim, open_runtime, until
from tests.servers import RedisCluster, RedisServer

HOUR_S: Final = 3_600
LIMIT_S: Final = 60

pytestmark = pytest.mark.backend("redis")


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)


class JobState:
    """The state that the jobs of one instance report."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended: list[str] = []


def instance(url: str, redis_url: str, state: JobState, *, lease_ttl_s: float = HOUR_S) -> Headway:
    hw = Headway(url, redis_url=redis_url, lease_ttl_s=lease_ttl_s, stop_wait_s=0)

    @hw.job()
    async def hang(ctx: RunContext) -> None:
        state.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            state.ended.append(str(ctx.execution.ending))

    @hw.job()
    async def ask(ctx: RunContext) -> Any:
        state.began.set()
        return await ctx.interrupt({"tool": "delete"}, timeout_s=HOUR_S)

    @hw.job()
    async def collect(ctx: RunContext) -> list[Any]:
        state.began.set()
        await ctx.execution.wakeup.wait()  # Do not read before a hint.
        return await ctx.messages()

    return hw


@asynccontextmanager
async def open_other_instance(url: str, redis_url: str) -> AsyncIterator[Headway]:
    """Open an instance without jobs."""
    async with Headway(url, redis_url=redis_url) as hw:
        yield hw


async def wait_until_watched(hw: Headway, count: int = 1) -> None:
    """Wait until `count` runs of this instance are registered and subscribed."""
    relay = hw.hint_relay
    assert relay is not None
    await until(lambda: len(relay.watched_run_ids) == count, what="the runs are watched")


async def wait_for_call_id(run: RunHandle) -> str:
    while not (interrupts := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return next(iter(interrupts))


@pytest.mark.proves("R4.9")
@pytest.mark.usefixtures("no_polls")
async def test_an_answer_from_another_instance_wakes_the_run(
    url: str, redis_server: RedisServer
) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, JobState()) as here,
        open_other_instance(url, redis_server.url) as there,
    ):
        run = await here.start("ask")
        await wait_until_watched(here)
        await there.run(run.id).answer(await wait_for_call_id(run), {"approved": True}, by="ann")
        assert await run.result() == {"approved": True}


@pytest.mark.proves("R4.11")
@pytest.mark.usefixtures("no_polls")
async def test_a_message_from_another_instance_reaches_the_run(
    url: str, redis_server: RedisServer
) -> None:
    state = JobState()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, state) as here,
        open_other_instance(url, redis_server.url) as there,
    ):
        run = await here.start("collect")
        await state.began.wait()
        await there.run(run.id).send("hi", deliver="when_listening")
        assert await run.result() == ["hi"]


@pytest.mark.proves("R4.10")
@pytest.mark.usefixtures("no_polls")
async def test_a_cancel_from_another_instance_reaches_the_run(
    url: str, redis_server: RedisServer
) -> None:
    state = JobState()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, state) as here,
        open_other_instance(url, redis_server.url) as there,
    ):
        run = await here.start("hang")
        await wait_until_watched(here)
        await there.run(run.id).cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert state.ended == ["cancelled"]


@pytest.mark.proves("R4.12")
@pytest.mark.usefixtures("no_polls")
async def test_a_cancel_reaches_the_run_through_a_redis_cluster(
    url: str, redis_cluster: RedisCluster
) -> None:
    redis_url, state = url_of(redis_cluster), JobState()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_url, state) as here,
        open_other_instance(url, redis_url) as there,
    ):
        run = await here.start("hang")
        await wait_until_watched(here)
        await there.run(run.id).cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("R4.12")
@pytest.mark.usefixtures("no_polls")
async def test_a_cancel_sent_before_the_subscription_is_found(
    url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is create, subscribe, check again, wait; the cancel comes before subscribe."""
    state, may_register = JobState(), asyncio.Event()
    register = hint_relay.HintRelay._register

    async def register_late(self: hint_relay.HintRelay, execution: Any) -> None:
        await may_register.wait()
        await register(self, execution)

    monkeypatch.setattr(hint_relay.HintRelay, "_register", register_late)
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, state) as here,
        open_other_instance(url, redis_server.url) as there,
    ):
        run = await here.start("hang")
        await state.began.wait()
        await there.run(run.id).cancel()
        may_register.set()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I3")
async def test_answers_and_cancels_still_arrive_without_redis(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    unreachable = "redis://127.0.0.1:1"
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, unreachable, JobState(), lease_ttl_s=0.5) as here,
        open_other_instance(url, unreachable) as there,
    ):
        asking, hanging = await here.start("ask"), await here.start("hang")
        await there.run(asking.id).answer(await wait_for_call_id(asking), "yes")
        assert await asking.result() == "yes"
        await there.run(hanging.id).cancel()
        assert (await hanging.wait_for_end()).run.status is RunStatus.CANCELED


async def read_lease(server: RedisServer, key: str) -> str | None:
    holder: str | None = await asyncio.to_thread(
        server.execute, "GET", lease_name(Key(key)).decode()
    )
    return holder


@pytest.mark.proves("R3.11")
async def test_a_run_is_registered_in_redis_until_it_has_ended(
    url: str, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headway")
    async with asyncio.timeout(LIMIT_S), instance(url, redis_server.url, JobState()) as here:
        run = await here.start("hang", key="ann")
        await wait_until_watched(here)
        assert run.id in str(await read_lease(redis_server, "ann"))
        assert "run_started" in caplog.text
        await run.cancel()
        await run.wait_for_end()

        async def is_gone() -> bool:
            return await read_lease(redis_server, "ann") is None

        await until(is_gone, what="the lease is released")


@pytest.mark.proves("R3.11")
async def test_a_takeover_replaces_the_lease_and_the_old_claim_cannot_remove_it(
    url: str, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The old process has stopped, but its lease stays in Redis until it expires."""
    caplog.set_level(logging.INFO, logger="headway")
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        here = await stack.enter_async_context(instance(url, redis_server.url, JobState()))
        run = await here.start("hang", key="bob")
        await wait_until_watched(here)
        await stack.aclose()
        async with instance(url, redis_server.url, JobState()) as there:
            await wait_until_watched(there)
            assert "run_replaced" in caplog.text
            old = a_claim(run.id)
            async with open_runtime(redis_server.url) as runtime:
                await runtime.cleanup_execution(Key("bob"), old)
            assert run.id in str(await read_lease(redis_server, "bob"))


@pytest.mark.proves("R4.13")
async def test_a_lost_lease_is_acquired_again_while_the_claim_is_current(
    url: str, redis_server: RedisServer
) -> None:
    state = JobState()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, state, lease_ttl_s=1) as here,
    ):
        run = await here.start("hang", key="cat")
        await wait_until_watched(here)
        await asyncio.to_thread(redis_server.execute, "FLUSHALL")

        async def is_back() -> bool:
            return run.id in str(await read_lease(redis_server, "cat"))

        await until(is_back, what="the lease is acquired again")
        assert state.ended == []
        assert await run.status() is RunStatus.RUNNING


@pytest.mark.proves("R4.13")
async def test_an_execution_with_a_stale_claim_stops_when_it_loses_the_lease(
    url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is stale in the database, and polls and hints cannot report it."""
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    state = JobState()
    hw = instance(url, redis_server.url, state)
    async with asyncio.timeout(LIMIT_S), hw as here:
        relay = here.hint_relay
        assert relay is not None
        relay._lease_ttl_s = 0.3
        run = await here.start("hang", key="dan")
        await wait_until_watched(here)
        await make_claim_stale(here, run)
        await asyncio.to_thread(redis_server.execute, "FLUSHALL")
        await until(lambda: state.ended == ["lost"], what="the job has stopped")


async def make_claim_stale(hw: Headway, run: RunHandle) -> None:
    """Change the token, as if another instance had claimed the run, without any hint."""
    async with hw.store._database.open_write_session() as connection:
        await connection.exec_driver_sql(
            "UPDATE runs SET token = 'another', revision = revision + 1 WHERE id = ?", (run.id,)
        )
        await connection.commit()


async def test_a_very_short_run_is_never_registered_on_the_hint_bus(
    url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[Any] = []
    register: Callable[..., Any] = hint_relay.HintRelay._register

    async def record_registration(self: hint_relay.HintRelay, execution: Any) -> None:
        registered.append(execution)
        await register(self, execution)

    monkeypatch.setattr(hint_relay.HintRelay, "_register", record_registration)
    monkeypatch.setattr(hint_relay, "REGISTER_DELAY_S", 1.0)
    hw = Headway(url, redis_url=redis_server.url)

    @hw.job()
    async def quick(ctx: RunContext) -> int:
        return 1

    async with asyncio.timeout(LIMIT_S), hw:
        runs = [await hw.start("quick") for _ in range(20)]
        await asyncio.gather(*(run.result() for run in runs))
    assert registered == []


@pytest.mark.proves("I14")
async def test_a_cancelled_program_leaves_no_lease_behind(
    url: str, redis_server: RedisServer
) -> None:
    async def program() -> None:
        async with instance(url, redis_server.url, JobState()) as here:
            await here.start("hang", key="eve")
            await wait_until_watched(here)
            has_lease.set()
            await asyncio.Event().wait()

    has_lease = asyncio.Event()
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        running = group.create_task(program())
        await has_lease.wait()
        assert await read_lease(redis_server, "eve") is not None
        running.cancel()
    assert running.cancelled()
    assert await read_lease(redis_server, "eve") is None


async def test_an_invalid_redis_address_is_refused_before_the_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="redis_url has the unknown scheme"):
        async with Headway(url, redis_url="http://127.0.0.1"):
            raise AssertionError("it must not start")
