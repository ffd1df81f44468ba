"""Hints across instances through Redis: what one commits, the executor of the run hears at once.

Two instances on one SQLite file, which tells nobody anything: where polls are an hour apart, only
Redis can have done it. With Redis away, polls are quick again, and everything still arrives.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import pytest

from headway import ConfigurationError, Headway, RunContext, RunHandle
from headway.adapters.redis.key_names import lease_name
from headway.core.ids import Key
from headway.core.run.status import RunStatus
from headway.services.engine import engine
from headway.services.engine import hint_relay as reach
from tests.runtime.conftest import url_of
from tests.runtime.scenes import a_claim, opened, until
from tests.servers import RedisCluster, RedisServer

HOUR_S: Final = 3_600
LIMIT_S: Final = 60

pytestmark = pytest.mark.backend("redis")


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)


class Talk:
    """What the jobs of one instance have done."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended: list[str] = []


def instance(url: str, redis_url: str, talk: Talk, *, lease_ttl_s: float = HOUR_S) -> Headway:
    hw = Headway(url, redis_url=redis_url, lease_ttl_s=lease_ttl_s, stop_wait_s=0)

    @hw.job()
    async def hang(ctx: RunContext) -> None:
        talk.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            talk.ended.append(str(ctx.execution.ending))

    @hw.job()
    async def ask(ctx: RunContext) -> Any:
        talk.began.set()
        return await ctx.interrupt({"tool": "delete"}, timeout_s=HOUR_S)

    @hw.job()
    async def collect(ctx: RunContext) -> list[Any]:
        talk.began.set()
        await ctx.execution.wakeup.wait()  # No look without a word.
        return await ctx.messages()

    return hw


@asynccontextmanager
async def elsewhere(url: str, redis_url: str) -> AsyncIterator[Headway]:
    """An instance that executes nothing."""
    async with Headway(url, redis_url=redis_url) as hw:
        yield hw


async def reached(hw: Headway, count: int = 1) -> None:
    """So many runs of this instance are registered, and hear what is said to them."""
    found = hw.hint_relay
    assert found is not None
    await until(lambda: len(found.watched_run_ids) == count, what="the runs are watched")


async def asked(run: RunHandle) -> str:
    while not (found := await run.interrupts()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return next(iter(found))


@pytest.mark.proves("R4.9")
@pytest.mark.usefixtures("no_polls")
async def test_an_answer_from_another_instance_wakes_the_run(
    url: str, redis_server: RedisServer
) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, Talk()) as here,
        elsewhere(url, redis_server.url) as there,
    ):
        run = await here.start("ask")
        await reached(here)
        await there.run(run.id).answer(await asked(run), {"approved": True}, by="ann")
        assert await run.result() == {"approved": True}


@pytest.mark.proves("R4.11")
@pytest.mark.usefixtures("no_polls")
async def test_a_message_from_another_instance_reaches_the_run(
    url: str, redis_server: RedisServer
) -> None:
    talk = Talk()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, talk) as here,
        elsewhere(url, redis_server.url) as there,
    ):
        run = await here.start("collect")
        await talk.began.wait()
        await there.run(run.id).send("hi", deliver="when_listening")
        assert await run.result() == ["hi"]


@pytest.mark.proves("R4.10")
@pytest.mark.usefixtures("no_polls")
async def test_a_cancel_from_another_instance_reaches_the_run(
    url: str, redis_server: RedisServer
) -> None:
    talk = Talk()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, talk) as here,
        elsewhere(url, redis_server.url) as there,
    ):
        run = await here.start("hang")
        await reached(here)
        await there.run(run.id).cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED
    assert talk.ended == ["cancelled"]


@pytest.mark.proves("R4.12")
@pytest.mark.usefixtures("no_polls")
async def test_the_same_on_a_cluster(url: str, redis_cluster: RedisCluster) -> None:
    redis_url, talk = url_of(redis_cluster), Talk()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_url, talk) as here,
        elsewhere(url, redis_url) as there,
    ):
        run = await here.start("hang")
        await reached(here)
        await there.run(run.id).cancel()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("R4.12")
@pytest.mark.usefixtures("no_polls")
async def test_what_was_said_before_anybody_listened_is_found(
    url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Create, subscribe, check again, wait: the cancel comes between the first and the second."""
    talk, may_listen = Talk(), asyncio.Event()
    register = reach.HintRelay._register

    async def late(self: reach.HintRelay, execution: Any) -> None:
        await may_listen.wait()
        await register(self, execution)

    monkeypatch.setattr(reach.HintRelay, "_register", late)
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, talk) as here,
        elsewhere(url, redis_server.url) as there,
    ):
        run = await here.start("hang")
        await talk.began.wait()
        await there.run(run.id).cancel()
        may_listen.set()
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I3")
async def test_with_redis_away_what_was_accepted_still_arrives(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    nobody = "redis://127.0.0.1:1"
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, nobody, Talk(), lease_ttl_s=0.5) as here,
        elsewhere(url, nobody) as there,
    ):
        asking, hanging = await here.start("ask"), await here.start("hang")
        await there.run(asking.id).answer(await asked(asking), "yes")
        assert await asking.result() == "yes"
        await there.run(hanging.id).cancel()
        assert (await hanging.wait_for_end()).run.status is RunStatus.CANCELED


async def lease(server: RedisServer, key: str) -> str | None:
    found: str | None = await asyncio.to_thread(
        server.execute, "GET", lease_name(Key(key)).decode()
    )
    return found


@pytest.mark.proves("R3.11")
async def test_a_run_is_registered_for_all_instances_until_it_has_ended(
    url: str, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="headway")
    async with asyncio.timeout(LIMIT_S), instance(url, redis_server.url, Talk()) as here:
        run = await here.start("hang", key="ann")
        await reached(here)
        assert run.id in str(await lease(redis_server, "ann"))
        assert "run_started" in caplog.text
        await run.cancel()
        await run.wait_for_end()

        async def is_gone() -> bool:
            return await lease(redis_server, "ann") is None

        await until(is_gone, what="the lease is released")


@pytest.mark.proves("R3.11")
async def test_who_takes_a_run_over_replaces_and_the_old_end_removes_nothing(
    url: str, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The old process has stopped, but its lease is in Redis until it expires."""
    caplog.set_level(logging.INFO, logger="headway")
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        here = await stack.enter_async_context(instance(url, redis_server.url, Talk()))
        run = await here.start("hang", key="bob")
        await reached(here)
        await stack.aclose()
        async with instance(url, redis_server.url, Talk()) as there:
            await reached(there)
            assert "run_replaced" in caplog.text
            old = a_claim(run.id)
            async with opened(redis_server.url) as runtime:
                await runtime.cleanup_execution(Key("bob"), old)
            assert run.id in str(await lease(redis_server, "bob"))


@pytest.mark.proves("R4.13")
async def test_a_lost_lease_is_taken_again_while_the_claim_stands(
    url: str, redis_server: RedisServer
) -> None:
    talk = Talk()
    async with (
        asyncio.timeout(LIMIT_S),
        instance(url, redis_server.url, talk, lease_ttl_s=1) as here,
    ):
        run = await here.start("hang", key="cat")
        await reached(here)
        await asyncio.to_thread(redis_server.execute, "FLUSHALL")

        async def is_back() -> bool:
            return run.id in str(await lease(redis_server, "cat"))

        await until(is_back, what="the lease is taken again")
        assert talk.ended == []
        assert await run.status() is RunStatus.RUNNING


@pytest.mark.proves("R4.13")
async def test_who_lost_the_claim_stops_by_itself_when_it_loses_the_lease(
    url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has given the run away, and every other way of learning it is cut."""
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    talk = Talk()
    hw = instance(url, redis_server.url, talk)
    async with asyncio.timeout(LIMIT_S), hw as here:
        found = here.hint_relay
        assert found is not None
        found._lease_ttl_s = 0.3
        run = await here.start("hang", key="dan")
        await reached(here)
        await void_claim(here, run)
        await asyncio.to_thread(redis_server.execute, "FLUSHALL")
        await until(lambda: talk.ended == ["lost"], what="the job has stopped")


async def void_claim(hw: Headway, run: RunHandle) -> None:
    """As when another instance has the run now; nobody here is told."""
    async with hw.store._database.open_write_session() as connection:
        await connection.exec_driver_sql(
            "UPDATE runs SET token = 'another', revision = revision + 1 WHERE id = ?", (run.id,)
        )
        await connection.commit()


async def test_a_run_that_is_over_in_a_moment_is_never_heard_of(
    url: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []
    register: Callable[..., Any] = reach.HintRelay._register

    async def noted(self: reach.HintRelay, execution: Any) -> None:
        held.append(execution)
        await register(self, execution)

    monkeypatch.setattr(reach.HintRelay, "_register", noted)
    monkeypatch.setattr(reach, "REGISTER_DELAY_S", 1.0)
    hw = Headway(url, redis_url=redis_server.url)

    @hw.job()
    async def quick(ctx: RunContext) -> int:
        return 1

    async with asyncio.timeout(LIMIT_S), hw:
        runs = [await hw.start("quick") for _ in range(20)]
        await asyncio.gather(*(run.result() for run in runs))
    assert held == []


@pytest.mark.proves("I14")
async def test_a_program_that_is_cancelled_leaves_no_lease_behind(
    url: str, redis_server: RedisServer
) -> None:
    async def program() -> None:
        async with instance(url, redis_server.url, Talk()) as here:
            await here.start("hang", key="eve")
            await reached(here)
            held.set()
            await asyncio.Event().wait()

    held = asyncio.Event()
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        running = group.create_task(program())
        await held.wait()
        assert await lease(redis_server, "eve") is not None
        running.cancel()
    assert running.cancelled()
    assert await lease(redis_server, "eve") is None


async def test_an_address_that_cannot_be_used_is_told_before_anything_starts(url: str) -> None:
    with pytest.raises(ConfigurationError, match="HEADWAY_REDIS_URL"):
        async with Headway(url, redis_url="http://127.0.0.1"):
            raise AssertionError("it must not start")
