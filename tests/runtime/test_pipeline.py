"""Calls to one Redis server, several of them in one batch."""

import asyncio
from collections.abc import Iterator

import pytest
from redis.asyncio.connection import Connection

from headway.runtime.redis import pipeline
from headway.runtime.redis.pipeline import Pipeline
from tests.servers import RedisServer, start_redis
from tests.servers.fixture import running

pytestmark = pytest.mark.backend("redis")


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    yield from running(start_redis, request)


@pytest.mark.proves("I20", "R4.11")
async def test_call_made_when_the_last_sender_has_just_ended_is_answered(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply wakes its caller before the done callbacks of the task that received it run."""
    monkeypatch.setattr(pipeline, "BATCH_COUNT_MAX", 1)
    calls = Pipeline(Connection, host=server.host, port=server.port)
    try:
        async with asyncio.timeout(10):
            replies = [await calls.call("ECHO", number) for number in range(3)]
    finally:
        await calls.close()
    assert replies == [b"0", b"1", b"2"]
