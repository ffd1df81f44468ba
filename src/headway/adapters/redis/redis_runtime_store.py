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
    cancel_name,
    channel_name,
    interactive_name,
    interrupt_name,
    lease_name,
    queue_name,
)
from headway.adapters.redis.pipelined_calls import RedisClient
from headway.adapters.redis.pubsub_connection import PubSubMessage
from headway.adapters.redis.subscriber import Subscriber
from headway.core.document import Document
from headway.core.errors import RuntimeUnavailable, StoreClosed
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.runtime_store import (
    CANCELED_ANSWER,
    SHUTDOWN_ANSWER,
    Hint,
    InjectAnswer,
    Phase,
    ResolveAnswer,
    RuntimeLimits,
)

INTERRUPT_MARGIN_S: Final = 60.0
"""How long a question is kept beyond the time in which it may be answered."""
CHECK_INTERVAL_S: Final = 30.0
"""A net below the hints: also a wait that is told nothing looks now and then."""
_CLOSED: Final = "closed"


class RedisRuntimeStore:
    """Used from one event loop; `close` it at the end."""

    def __init__(self, address: RedisAddress, limits: RuntimeLimits | None = None) -> None:
        self._limits = limits or RuntimeLimits()
        self._client = RedisClient(address)
        self._subscriber = Subscriber(self._client)
        self._waits: set[_InterruptWait] = set()
        self._is_shut_down = False

    async def close(self) -> None:
        """Calls raise StoreClosed from now on; waits end with SHUTDOWN."""
        await self.shutdown_cleanup()
        await self._subscriber.close()
        await self._client.close()

    async def acquire_lease(self, key: Key, claim: Claim) -> RunId | None:
        holder = await self._acquire(key, claim)
        return None if holder is None else holder.run_id

    async def renew_lease(self, key: Key, claim: Claim) -> bool:
        values = _encode_claim(claim), _to_ms(self._limits.lease_ttl_s)
        return bool(
            await self._client.run_script(scripts.RENEW_LEASE, keys=_key_names(key), values=values)
        )

    async def release_lease(self, key: Key, claim: Claim) -> bool:
        values = (_encode_claim(claim),)
        return bool(
            await self._client.run_script(
                scripts.RELEASE_LEASE, keys=_key_names(key), values=values
            )
        )

    async def mark_interactive(
        self, key: Key, claim: Claim, phase: Phase = Phase.STREAMING
    ) -> bool:
        written = _encode_claim(claim)
        values = written, phase.encode() + b" " + written
        if not await self._client.run_script(
            scripts.MARK_INTERACTIVE, keys=_key_names(key), values=values
        ):
            return False
        # Marked first: a queue that is open without the flag would be refused at the door.
        await self._client.run_script(
            scripts.OPEN_QUEUE,
            keys=(queue_name(claim.run_id),),
            values=(written, _to_ms(self._limits.execution_timeout_s)),
        )
        return True

    async def clear_interactive(self, key: Key, claim: Claim) -> tuple[Document, ...]:
        # The flag first: whatever still comes in before the queue closes is returned.
        values = (_encode_claim(claim),)
        await self._client.run_script(
            scripts.CLEAR_INTERACTIVE, keys=_key_names(key), values=values
        )
        left = await self._client.run_script(
            scripts.CLOSE_QUEUE, keys=(queue_name(claim.run_id),), values=values
        )
        return _to_documents(left)

    async def create_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> bool:
        return (
            await self._open_interrupt(run_id, call_id, self._answer_timeout_s(timeout_s))
            is not None
        )

    async def wait_for_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> Document | None:
        wait = _InterruptWait(call_id, timeout_s=self._answer_timeout_s(timeout_s))
        self._waits.add(wait)
        try:
            async with self._subscriber.open_subscription(
                channel_name(run_id), wait.handle_message
            ):
                await self._wait_for_answer(run_id, wait)
        finally:
            self._waits.discard(wait)
        if wait.is_done:
            return wait.outcome
        return await self._close_interrupt(run_id, call_id)

    async def _wait_for_answer(self, run_id: RunId, wait: "_InterruptWait") -> None:
        """Until it is over, or there is no time left, or this process stops."""
        await self._check_for_answer(run_id, wait)
        while self._should_wait(wait) and await wait.wait(within_s=CHECK_INTERVAL_S):
            if self._should_wait(wait):
                with suppress(
                    RuntimeUnavailable, StoreClosed
                ):  # Told to look again when the line is back.
                    await self._check_for_answer(run_id, wait)

    def _should_wait(self, wait: "_InterruptWait") -> bool:
        return not wait.is_done and not self._is_shut_down

    async def _check_for_answer(self, run_id: RunId, wait: "_InterruptWait") -> None:
        wait.reset()  # First: what is said from here on is a reason to look once more.
        found = await self._open_interrupt(run_id, wait.call_id, wait.timeout_s)
        if found != "":
            wait.finish(found)

    async def _close_interrupt(self, run_id: RunId, call_id: str) -> Document | None:
        try:
            answer = await self._client.run_script(
                scripts.CLOSE_INTERRUPT,
                keys=(interrupt_name(run_id),),
                values=(_encode_text(call_id),),
            )
        except (RuntimeUnavailable, StoreClosed):
            if self._is_shut_down:
                return SHUTDOWN_ANSWER
            raise
        if answer is not None:
            return Document(answer.decode())
        return SHUTDOWN_ANSWER if self._is_shut_down else None

    async def resolve_interrupt(
        self, run_id: RunId, call_id: str, answer: Document
    ) -> ResolveAnswer:
        told = await self._client.run_script(
            scripts.RESOLVE_INTERRUPT,
            keys=(interrupt_name(run_id), channel_name(run_id)),
            values=(_encode_text(call_id), answer, _encode_message(Hint.ANSWER, call_id, answer)),
        )
        return ResolveAnswer(told.decode())

    async def request_cancel(self, run_id: RunId) -> None:
        await self._client.run_script(
            scripts.CANCEL,
            keys=(cancel_name(run_id), interrupt_name(run_id), channel_name(run_id)),
            values=(
                _to_ms(self._limits.execution_timeout_s),
                CANCELED_ANSWER,
                _encode_message(Hint.CANCEL),
            ),
        )

    async def is_cancelled(self, run_id: RunId) -> bool:
        (flag,) = await self._client.read_values(cancel_name(run_id))
        return flag is not None

    async def inject_message(self, key: Key, run_id: RunId, message: Document) -> InjectAnswer:
        lease, interactive = await self._client.read_values(*_key_names(key))
        if lease is None or _parse_claim(lease).run_id != run_id:
            return InjectAnswer.NO_ACTIVE_RUN
        if interactive is None:
            return InjectAnswer.NOT_STREAMING
        if interactive.startswith(Phase.COMPACTING.encode()):
            return InjectAnswer.COMPACTING
        # What the flag says may be over by now. The queue decides: it is there only while somebody
        # will drain it, or is given what it holds when it closes.
        told = await self._client.run_script(
            scripts.INJECT,
            keys=(queue_name(run_id), channel_name(run_id)),
            values=(
                message,
                self._limits.message_count_max,
                _to_ms(self._limits.execution_timeout_s),
                _encode_message(Hint.MESSAGE),
            ),
        )
        return InjectAnswer(told.decode())

    async def drain_messages(self, claim: Claim) -> tuple[Document, ...]:
        values = _encode_claim(claim), _to_ms(self._limits.execution_timeout_s)
        drained = await self._client.run_script(
            scripts.DRAIN, keys=(queue_name(claim.run_id),), values=values
        )
        return _to_documents(drained)

    async def publish_hint(self, run_id: RunId, hint: Hint) -> None:
        await self._client.run_script(
            scripts.PUBLISH, keys=(channel_name(run_id),), values=(_encode_message(hint),)
        )

    async def watch(self, run_id: RunId, listener: Callable[[Hint], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def hear(words: PubSubMessage) -> None:
            if words[0] != _CLOSED:
                loop.call_soon(listener, Hint(words[0]) if words[0] in _HINTS else Hint.RESYNC)

        channel = channel_name(run_id)
        await self._subscriber.subscribe(channel, hear)
        return lambda: self._subscriber.unsubscribe(channel, hear)

    async def cleanup_execution(self, key: Key, claim: Claim) -> None:
        # The lease is taken for the duration, so that no other claim of the run begins meanwhile.
        holder = await self._acquire(key, claim)
        if holder is not None and holder.run_id == claim.run_id:
            return
        run_id = claim.run_id
        await self._client.run_script(
            scripts.CLEAN_UP,
            keys=(
                interrupt_name(run_id),
                cancel_name(run_id),
                queue_name(run_id),
                channel_name(run_id),
            ),
            values=(_encode_message(_CLOSED),),
        )
        await self.release_lease(key, claim)

    async def shutdown_cleanup(self) -> None:
        self._is_shut_down = True
        for wait in self._waits:
            wait.notify()

    async def _acquire(self, key: Key, claim: Claim) -> Claim | None:
        values = _encode_claim(claim), _to_ms(self._limits.lease_ttl_s)
        holder = await self._client.run_script(
            scripts.ACQUIRE_LEASE, keys=_key_names(key), values=values
        )
        return None if holder is None else _parse_claim(holder)

    async def _open_interrupt(
        self, run_id: RunId, call_id: str, timeout_s: float
    ) -> Document | None:
        """The answer; empty: the question is open, and is opened if it was not; None: too many."""
        ttl_ms = _to_ms(timeout_s + INTERRUPT_MARGIN_S)
        found = await self._client.run_script(
            scripts.OPEN_INTERRUPT,
            keys=(interrupt_name(run_id), cancel_name(run_id)),
            values=(
                _encode_text(call_id),
                ttl_ms,
                self._limits.interrupt_count_max,
                CANCELED_ANSWER,
            ),
        )
        return None if found is None else Document(found.decode())

    def _answer_timeout_s(self, timeout_s: float | None) -> float:
        return self._limits.permission_timeout_s if timeout_s is None else timeout_s


class _InterruptWait:
    """Somebody who waits for the answer to one question."""

    __slots__ = ("_until_s", "_wake_event", "call_id", "is_done", "outcome", "timeout_s")

    def __init__(self, call_id: str, *, timeout_s: float) -> None:
        self.call_id = call_id
        self.timeout_s = timeout_s
        self.is_done = False
        self.outcome: Document | None = None
        self._until_s = asyncio.get_running_loop().time() + timeout_s
        self._wake_event = asyncio.Event()

    def handle_message(self, words: PubSubMessage) -> None:
        match words:
            case [Hint.ANSWER, call_id, answer]:
                if call_id == self.call_id:
                    self.finish(Document(answer))
            case [Hint.CANCEL]:
                self.notify()  # Whoever was waiting finds the answer; a hint alone gives none.
            case ["closed"]:
                self.finish(None)
            case [Hint.MESSAGE]:
                pass
            case _:
                self.notify()

    def finish(self, outcome: Document | None) -> None:
        if not self.is_done:
            self.is_done, self.outcome = True, outcome
            self.notify()

    def notify(self) -> None:
        self._wake_event.set()

    def reset(self) -> None:
        self._wake_event.clear()

    async def wait(self, *, within_s: float) -> bool:
        """Return when there is something to look at, or after `within_s`; False: time is up."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(self._until_s, loop.time() + within_s)):
                await self._wake_event.wait()
        except TimeoutError:
            return loop.time() < self._until_s
        return True


_HINTS: Final = frozenset(Hint)


def _key_names(key: Key) -> tuple[bytes, bytes]:
    return lease_name(key), interactive_name(key)


def _to_ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _encode_claim(claim: Claim) -> bytes:
    return json.dumps(claim).encode()


def _parse_claim(written: bytes) -> Claim:
    run_id, token = json.loads(written)
    return Claim(RunId(run_id), token)


def _encode_message(*words: str) -> bytes:
    return json.dumps(words).encode()


def _encode_text(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _to_documents(items: Any) -> tuple[Document, ...]:
    return tuple(Document(item.decode()) for item in items)
