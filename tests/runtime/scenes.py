"""Runtime stores on every backend, and what their tests say often."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from uuid import uuid4

from headway.adapters.memory.memory_runtime_store import MemoryRuntimeStore
from headway.adapters.redis.address import parse_redis_url
from headway.adapters.redis.redis_runtime_store import RedisRuntimeStore
from headway.core.document import Document
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.runtime_store import RuntimeLimits

Runtime = MemoryRuntimeStore | RedisRuntimeStore
BACKENDS: Final = ("memory", "redis", "redis-classic", "redis-valkey", "redis-cluster")
SHARED: Final = BACKENDS[1:]
"""Those that several instances can use."""
YES: Final = Document('{"approved":true}')
NO: Final = Document('{"approved":false}')
# As servers are that have no sharded channels yet.
CLASSIC: Final = {"rename-command": 'SPUBLISH ""'}
PATIENCE_S: Final = 30.0
_numbers: Final = count(1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where stores can be opened that share what they hold."""

    backend: str
    url: str | None

    @property
    def is_memory(self) -> bool:
        return self.url is None

    def opened(self, terms: RuntimeLimits | None = None) -> AbstractAsyncContextManager[Runtime]:
        return opened(self.url, terms)


@asynccontextmanager
async def opened(url: str | None, terms: RuntimeLimits | None = None) -> AsyncIterator[Runtime]:
    if url is None:
        yield MemoryRuntimeStore(terms)
        return
    store = RedisRuntimeStore(parse_redis_url(url), terms)
    try:
        yield store
    finally:
        await store.close()


def a_key(text: str = "key") -> Key:
    return Key(f"{text}-{uuid4().hex}")


def a_claim(run_id: RunId | None = None) -> Claim:
    """Of a run of its own, or another claim of that run."""
    return Claim(run_id or RunId(f"run-{uuid4().hex}"), f"token-{next(_numbers)}")


def text(number: int) -> Document:
    return Document(f'"message {number}"')


async def until(
    condition: Callable[[], bool] | Callable[[], Awaitable[bool]], *, what: str
) -> None:
    """Look again and again until it is so; `what` is for the reader of a failure."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await _is(condition):  # noqa: ASYNC110 - Servers set no event of ours.
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {PATIENCE_S:g} s: {what}") from None


async def _is(condition: Callable[[], Any]) -> bool:
    found = condition()
    return bool(await found if isinstance(found, Awaitable) else found)


async def until_waiting(store: Runtime, run_id: RunId, *call_ids: str) -> None:
    """The waits for these answers have nothing left to do but to sleep."""
    await until(
        lambda: set(call_ids) <= _sleeping(store, run_id), what=f"{call_ids} are waited for"
    )


def _sleeping(store: Runtime, run_id: RunId) -> set[str]:
    if isinstance(store, MemoryRuntimeStore):
        interrupts = store._interrupts.get(run_id, {})
        return {call_id for call_id, interrupt in interrupts.items() if interrupt.waiters}
    return {wait.call_id for wait in store._waits if wait._wake_event._waiters}


def is_empty(store: MemoryRuntimeStore) -> bool:
    """Nothing is left behind, of anybody."""
    kept = (store._leases, store._phases, store._interrupts, store._queues, store._listeners)
    return not any(kept) and not store._canceled_ids
