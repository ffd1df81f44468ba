"""The runtime store of several instances: see `keys.py` for the names, `scripts.py` for the rules.

A wait for an answer has four steps: create, subscribe, check again, wait. Without the third, an
answer between the first two would be heard by nobody.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headway.adapters.redis import lua_scripts as scripts
from headway.adapters.redis.address import RedisAddress
from headway.adapters.redis.key_names import (
    cancel_of,
    channel_of,
    interactive_of,
    interrupt_of,
    lease_of,
    queue_of,
)
from headway.adapters.redis.pipelined_calls import Calls
from headway.adapters.redis.pubsub_connection import Words
from headway.adapters.redis.subscriber import Subscriber
from headway.core.document import Document
from headway.core.errors import RuntimeUnavailable, StoreClosed
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.runtime_store import (
    CANCELLED,
    SHUTDOWN,
    Hint,
    InjectAnswer,
    Phase,
    ResolveAnswer,
    RuntimeTerms,
)

INTERRUPT_MARGIN_S: Final = 60.0
"""How long a question is kept beyond the time in which it may be answered."""
CHECK_EVERY_S: Final = 30.0
"""A net below the hints: also a wait that is told nothing looks now and then."""
_CLOSED: Final = "closed"


class RedisRuntimeStore:
    """Used from one event loop; `close` it at the end."""

    def __init__(self, address: RedisAddress, terms: RuntimeTerms | None = None) -> None:
        self._terms = terms or RuntimeTerms()
        self._calls = Calls(address)
        self._subscriber = Subscriber(self._calls)
        self._waits: set[_Wait] = set()
        self._is_shut_down = False

    async def close(self) -> None:
        """Calls raise StoreClosed from now on; waits end with SHUTDOWN."""
        await self.shutdown_cleanup()
        await self._subscriber.close()
        await self._calls.close()

    async def acquire_lease(self, key: Key, claim: Claim) -> RunId | None:
        holder = await self._acquire(key, claim)
        return None if holder is None else holder.run_id

    async def renew_lease(self, key: Key, claim: Claim) -> bool:
        values = _written(claim), _ms(self._terms.lease_ttl_s)
        return bool(await self._calls.run(scripts.RENEW_LEASE, keys=_of(key), values=values))

    async def release_lease(self, key: Key, claim: Claim) -> bool:
        values = (_written(claim),)
        return bool(await self._calls.run(scripts.RELEASE_LEASE, keys=_of(key), values=values))

    async def mark_interactive(
        self, key: Key, claim: Claim, phase: Phase = Phase.STREAMING
    ) -> bool:
        written = _written(claim)
        values = written, phase.encode() + b" " + written
        if not await self._calls.run(scripts.MARK_INTERACTIVE, keys=_of(key), values=values):
            return False
        # Marked first: a queue that is open without the flag would be refused at the door.
        await self._calls.run(
            scripts.OPEN_QUEUE,
            keys=(queue_of(claim.run_id),),
            values=(written, _ms(self._terms.execution_timeout_s)),
        )
        return True

    async def clear_interactive(self, key: Key, claim: Claim) -> tuple[Document, ...]:
        # The flag first: whatever still comes in before the queue closes is returned.
        values = (_written(claim),)
        await self._calls.run(scripts.CLEAR_INTERACTIVE, keys=_of(key), values=values)
        left = await self._calls.run(
            scripts.CLOSE_QUEUE, keys=(queue_of(claim.run_id),), values=values
        )
        return _documents(left)

    async def create_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> bool:
        return await self._ask(run_id, call_id, self._patience_s(timeout_s)) is not None

    async def wait_for_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> Document | None:
        wait = _Wait(call_id, timeout_s=self._patience_s(timeout_s))
        self._waits.add(wait)
        try:
            async with self._subscriber.listening(channel_of(run_id), wait.hear):
                await self._hear_or_find(run_id, wait)
        finally:
            self._waits.discard(wait)
        if wait.is_over:
            return wait.outcome
        return await self._give_up(run_id, call_id)

    async def _hear_or_find(self, run_id: RunId, wait: "_Wait") -> None:
        """Until it is over, or there is no time left, or this process stops."""
        await self._look(run_id, wait)
        while self._goes_on(wait) and await wait.wake(within_s=CHECK_EVERY_S):
            if self._goes_on(wait):
                with suppress(
                    RuntimeUnavailable, StoreClosed
                ):  # Told to look again when the line is back.
                    await self._look(run_id, wait)

    def _goes_on(self, wait: "_Wait") -> bool:
        return not wait.is_over and not self._is_shut_down

    async def _look(self, run_id: RunId, wait: "_Wait") -> None:
        wait.rest()  # First: what is said from here on is a reason to look once more.
        found = await self._ask(run_id, wait.call_id, wait.timeout_s)
        if found != "":
            wait.end(found)

    async def _give_up(self, run_id: RunId, call_id: str) -> Document | None:
        try:
            answer = await self._calls.run(
                scripts.GIVE_UP, keys=(interrupt_of(run_id),), values=(_encoded(call_id),)
            )
        except (RuntimeUnavailable, StoreClosed):
            if self._is_shut_down:
                return SHUTDOWN
            raise
        if answer is not None:
            return Document(answer.decode())
        return SHUTDOWN if self._is_shut_down else None

    async def resolve_interrupt(
        self, run_id: RunId, call_id: str, answer: Document
    ) -> ResolveAnswer:
        told = await self._calls.run(
            scripts.RESOLVE,
            keys=(interrupt_of(run_id), channel_of(run_id)),
            values=(_encoded(call_id), answer, _spoken(Hint.ANSWER, call_id, answer)),
        )
        return ResolveAnswer(told.decode())

    async def request_cancel(self, run_id: RunId) -> None:
        await self._calls.run(
            scripts.CANCEL,
            keys=(cancel_of(run_id), interrupt_of(run_id), channel_of(run_id)),
            values=(_ms(self._terms.execution_timeout_s), CANCELLED, _spoken(Hint.CANCEL)),
        )

    async def is_cancelled(self, run_id: RunId) -> bool:
        (flag,) = await self._calls.read(cancel_of(run_id))
        return flag is not None

    async def inject_message(self, key: Key, run_id: RunId, message: Document) -> InjectAnswer:
        lease, interactive = await self._calls.read(*_of(key))
        if lease is None or _claim(lease).run_id != run_id:
            return InjectAnswer.NO_ACTIVE_RUN
        if interactive is None:
            return InjectAnswer.NOT_STREAMING
        if interactive.startswith(Phase.COMPACTING.encode()):
            return InjectAnswer.COMPACTING
        # What the flag says may be over by now. The queue decides: it is there only while somebody
        # will drain it, or is given what it holds when it closes.
        told = await self._calls.run(
            scripts.INJECT,
            keys=(queue_of(run_id), channel_of(run_id)),
            values=(
                message,
                self._terms.message_count_max,
                _ms(self._terms.execution_timeout_s),
                _spoken(Hint.MESSAGE),
            ),
        )
        return InjectAnswer(told.decode())

    async def drain_messages(self, claim: Claim) -> tuple[Document, ...]:
        values = _written(claim), _ms(self._terms.execution_timeout_s)
        drained = await self._calls.run(
            scripts.DRAIN, keys=(queue_of(claim.run_id),), values=values
        )
        return _documents(drained)

    async def publish_hint(self, run_id: RunId, hint: Hint) -> None:
        await self._calls.run(scripts.PUBLISH, keys=(channel_of(run_id),), values=(_spoken(hint),))

    async def watch(self, run_id: RunId, listener: Callable[[Hint], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def hear(words: Words) -> None:
            if words[0] != _CLOSED:
                loop.call_soon(listener, Hint(words[0]) if words[0] in _HINTS else Hint.LOOK)

        channel = channel_of(run_id)
        await self._subscriber.listen(channel, hear)
        return lambda: self._subscriber.forget(channel, hear)

    async def cleanup_execution(self, key: Key, claim: Claim) -> None:
        # The lease is taken for the duration, so that no other claim of the run begins meanwhile.
        holder = await self._acquire(key, claim)
        if holder is not None and holder.run_id == claim.run_id:
            return
        run_id = claim.run_id
        await self._calls.run(
            scripts.CLEAN_UP,
            keys=(interrupt_of(run_id), cancel_of(run_id), queue_of(run_id), channel_of(run_id)),
            values=(_spoken(_CLOSED),),
        )
        await self.release_lease(key, claim)

    async def shutdown_cleanup(self) -> None:
        self._is_shut_down = True
        for wait in self._waits:
            wait.stir()

    async def _acquire(self, key: Key, claim: Claim) -> Claim | None:
        values = _written(claim), _ms(self._terms.lease_ttl_s)
        holder = await self._calls.run(scripts.ACQUIRE_LEASE, keys=_of(key), values=values)
        return None if holder is None else _claim(holder)

    async def _ask(self, run_id: RunId, call_id: str, timeout_s: float) -> Document | None:
        """The answer; empty: the question is open, and is opened if it was not; None: too many."""
        ttl_ms = _ms(timeout_s + INTERRUPT_MARGIN_S)
        found = await self._calls.run(
            scripts.ASK,
            keys=(interrupt_of(run_id), cancel_of(run_id)),
            values=(_encoded(call_id), ttl_ms, self._terms.interrupt_count_max, CANCELLED),
        )
        return None if found is None else Document(found.decode())

    def _patience_s(self, timeout_s: float | None) -> float:
        return self._terms.permission_timeout_s if timeout_s is None else timeout_s


class _Wait:
    """Somebody who waits for the answer to one question."""

    __slots__ = ("_stirred", "_until_s", "call_id", "is_over", "outcome", "timeout_s")

    def __init__(self, call_id: str, *, timeout_s: float) -> None:
        self.call_id = call_id
        self.timeout_s = timeout_s
        self.is_over = False
        self.outcome: Document | None = None
        self._until_s = asyncio.get_running_loop().time() + timeout_s
        self._stirred = asyncio.Event()

    def hear(self, words: Words) -> None:
        match words:
            case [Hint.ANSWER, call_id, answer]:
                if call_id == self.call_id:
                    self.end(Document(answer))
            case [Hint.CANCEL]:
                self.stir()  # Whoever was waiting finds the answer; a hint alone gives none.
            case ["closed"]:
                self.end(None)
            case [Hint.MESSAGE]:
                pass
            case _:
                self.stir()

    def end(self, outcome: Document | None) -> None:
        if not self.is_over:
            self.is_over, self.outcome = True, outcome
            self.stir()

    def stir(self) -> None:
        self._stirred.set()

    def rest(self) -> None:
        self._stirred.clear()

    async def wake(self, *, within_s: float) -> bool:
        """Return when there is something to look at, or after `within_s`; False: time is up."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(self._until_s, loop.time() + within_s)):
                await self._stirred.wait()
        except TimeoutError:
            return loop.time() < self._until_s
        return True


_HINTS: Final = frozenset(Hint)


def _of(key: Key) -> tuple[bytes, bytes]:
    return lease_of(key), interactive_of(key)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _written(claim: Claim) -> bytes:
    return json.dumps(claim).encode()


def _claim(written: bytes) -> Claim:
    run_id, token = json.loads(written)
    return Claim(RunId(run_id), token)


def _spoken(*words: str) -> bytes:
    return json.dumps(words).encode()


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _documents(items: Any) -> tuple[Document, ...]:
    return tuple(Document(item.decode()) for item in items)
