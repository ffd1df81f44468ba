"""Runtime stores on every backend, and helpers that their tests share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import uuid4

from headway.core.document import Document
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.runtime import RuntimeLimits, open_runtime_store
from headway.runtime.memory_runtime_store import MemoryRuntimeStore
from headway.runtime.redis.redis_runtime_store import RedisRuntimeStore

Runtime = MemoryRuntimeStore | RedisRuntimeStore
BACKENDS: Final = ("memory", "redis", "redis-classic", "redis-valkey", "redis-cluster")
SHARED: Final = BACKENDS[1:]
"""Backends that several instances can share."""
YES: Final = Document('{"approved":true}')
NO: Final = Document('{"approved":false}')
# Imitates servers that have no sharded channels.
CLASSIC: Final = {"rename-command": 'SPUBLISH ""'}
WAIT_MAX_S: Final = 30.0
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class RuntimeTarget:
    """A backend at which several stores can be opened that share their data."""

    backend: str
    url: str | None

    @property
    def is_memory(self) -> bool:
        return self.url is None

    def open(self, limits: RuntimeLimits | None = None) -> AbstractAsyncContextManager[Runtime]:
        return open_runtime(self.url, limits)


@asynccontextmanager
async def open_runtime(
    url: str | None, limits: RuntimeLimits | None = None
) -> AsyncIterator[Runtime]:
    async with open_runtime_store(url, limits) as store:
        assert isinstance(store, Runtime)
        yield store


def a_key(text: str = "key") -> Key:
    return Key(f"{text}-{uuid4().hex}")


def a_claim(run_id: RunId | None = None) -> Claim:
    """Return a claim of a new run, or a new claim of `run_id`."""
    return Claim(run_id or RunId(f"run-{uuid4().hex}"), f"token-{next(_numbers)}")


def text(number: int) -> Document:
    return Document(f'"message {number}"')


async def until(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]], *, what: str
) -> None:
    """Poll until the condition is true. `what` describes it in the failure message."""
    try:
        async with asyncio.timeout(WAIT_MAX_S):
            while not await _holds(condition):  # noqa: ASYNC110 - A server cannot set an asyncio event.
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not true within {WAIT_MAX_S:g} s: {what}") from None


async def _holds(condition: Callable[[], Any]) -> bool:
    result = condition()
    return bool(await result if isinstance(result, Awaitable) else result)


async def until_waiting(store: Runtime, run_id: RunId, *call_ids: str) -> None:
    """Wait until the waits for these answers are asleep."""
    await until(
        lambda: set(call_ids) <= _sleeping(store, run_id),
        what=f"the waits for {call_ids} are asleep",
    )


def _sleeping(store: Runtime, run_id: RunId) -> set[str]:
    if isinstance(store, MemoryRuntimeStore):
        interrupts = store._interrupts.get(run_id, {})
        return {call_id for call_id, interrupt in interrupts.items() if interrupt.waiters}
    return {wait.call_id for wait in store._waits if wait._wake_event._waiters}


def is_empty(store: MemoryRuntimeStore) -> bool:
    """Return True if the store contains no data of any run or key."""
    tables = (store._leases, store._phases, store._interrupts, store._queues, store._listeners)
    return not any(tables) and not store._canceled_ids
