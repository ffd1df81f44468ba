"""The runtime store in Redis, which several instances share.

`key_names.py` has the names of the Redis keys, and `lua_scripts.py` has the rules. A wait for an
answer has four steps: create the interrupt, subscribe, check for an answer, wait. Without the
check, an answer between the first two steps would be lost.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headway.core.document import Document
from headway.core.errors import RuntimeUnavailable, StoreClosed
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.hint_bus import Hint
from headway.runtime.redis import lua_scripts as scripts
from headway.runtime.redis.address import RedisAddress
from headway.runtime.redis.key_names import (
    cancel_name,
    channel_name,
    interactive_name,
    interrupt_name,
    lease_name,
    queue_name,
)
from headway.runtime.redis.pipelined_calls import RedisClient
from headway.runtime.redis.pubsub_connection import PubSubMessage
from headway.runtime.redis.subscriber import Subscriber
from headway.runtime.runtime_store import (
    CANCELED_ANSWER,
    SHUTDOWN_ANSWER,
    InjectAnswer,
    Phase,
    ResolveAnswer,
    RuntimeLimits,
)

INTERRUPT_MARGIN_S: Final = 60.0
"""How long an interrupt is stored after its time to answer has passed."""
CHECK_INTERVAL_S: Final = 30.0
"""A waiting caller also checks for an answer at this interval, in case a hint was lost."""
_CLOSED: Final = "closed"


class RedisRuntimeStore:
    """A `RuntimeStore` in Redis, for use from one event loop. Call `close` at the end."""

    def __init__(self, address: RedisAddress, limits: RuntimeLimits | None = None) -> None:
        self._limits = limits or RuntimeLimits()
        self._client = RedisClient(address)
        self._subscriber = Subscriber(self._client)
        self._waits: set[_InterruptWait] = set()
        self._is_shut_down = False

    async def close(self) -> None:
        """Close all connections. Waits end with SHUTDOWN_ANSWER, later calls raise StoreClosed."""
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
        encoded_claim = _encode_claim(claim)
        values = encoded_claim, phase.encode() + b" " + encoded_claim
        if not await self._client.run_script(
            scripts.MARK_INTERACTIVE, keys=_key_names(key), values=values
        ):
            return False
        # Set the flag first: without it, `inject_message` refuses messages for an open queue.
        await self._client.run_script(
            scripts.OPEN_QUEUE,
            keys=(queue_name(claim.run_id),),
            values=(encoded_claim, _to_ms(self._limits.execution_timeout_s)),
        )
        return True

    async def clear_interactive(self, key: Key, claim: Claim) -> tuple[Document, ...]:
        # Clear the flag first: messages that still arrive before the queue closes are returned.
        values = (_encode_claim(claim),)
        await self._client.run_script(
            scripts.CLEAR_INTERACTIVE, keys=_key_names(key), values=values
        )
        messages = await self._client.run_script(
            scripts.CLOSE_QUEUE, keys=(queue_name(claim.run_id),), values=values
        )
        return _to_documents(messages)

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
        """Wait until the interrupt is answered or removed, its time is up, or the store closes."""
        await self._check_for_answer(run_id, wait)
        while self._should_wait(wait) and await wait.wait(within_s=CHECK_INTERVAL_S):
            if self._should_wait(wait):
                # After an outage the subscriber sends RESYNC, which causes another check.
                with suppress(RuntimeUnavailable, StoreClosed):
                    await self._check_for_answer(run_id, wait)

    def _should_wait(self, wait: "_InterruptWait") -> bool:
        return not wait.is_done and not self._is_shut_down

    async def _check_for_answer(self, run_id: RunId, wait: "_InterruptWait") -> None:
        wait.reset()  # Before the read, so that a hint during the read causes another check.
        answer = await self._open_interrupt(run_id, wait.call_id, wait.timeout_s)
        if answer != "":
            wait.finish(answer)

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
        reply = await self._client.run_script(
            scripts.RESOLVE_INTERRUPT,
            keys=(interrupt_name(run_id), channel_name(run_id)),
            values=(_encode_text(call_id), answer, _encode_message(Hint.ANSWER, call_id, answer)),
        )
        return ResolveAnswer(reply.decode())

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
        # The flag may be outdated by now. The queue decides: it exists only while the holder will
        # drain it, or will receive its messages when it closes.
        reply = await self._client.run_script(
            scripts.INJECT,
            keys=(queue_name(run_id), channel_name(run_id)),
            values=(
                message,
                self._limits.message_count_max,
                _to_ms(self._limits.execution_timeout_s),
                _encode_message(Hint.MESSAGE),
            ),
        )
        return InjectAnswer(reply.decode())

    async def drain_messages(self, claim: Claim) -> tuple[Document, ...]:
        values = _encode_claim(claim), _to_ms(self._limits.execution_timeout_s)
        messages = await self._client.run_script(
            scripts.DRAIN, keys=(queue_name(claim.run_id),), values=values
        )
        return _to_documents(messages)

    async def publish_hint(self, run_id: RunId, hint: Hint) -> None:
        await self._client.run_script(
            scripts.PUBLISH, keys=(channel_name(run_id),), values=(_encode_message(hint),)
        )

    async def watch(self, run_id: RunId, listener: Callable[[Hint], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def handle_message(message: PubSubMessage) -> None:
            kind = message[0]
            if kind != _CLOSED:
                loop.call_soon(listener, Hint(kind) if kind in _HINTS else Hint.RESYNC)

        channel = channel_name(run_id)
        await self._subscriber.subscribe(channel, handle_message)
        return lambda: self._subscriber.unsubscribe(channel, handle_message)

    async def cleanup_execution(self, key: Key, claim: Claim) -> None:
        # Hold the lease during the cleanup, so that no other claim of the run can start.
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
        """Open the interrupt if needed, and return its answer.

        Return an empty text if it has no answer yet. Return None if the run has too many
        interrupts.
        """
        ttl_ms = _to_ms(timeout_s + INTERRUPT_MARGIN_S)
        answer = await self._client.run_script(
            scripts.OPEN_INTERRUPT,
            keys=(interrupt_name(run_id), cancel_name(run_id)),
            values=(
                _encode_text(call_id),
                ttl_ms,
                self._limits.interrupt_count_max,
                CANCELED_ANSWER,
            ),
        )
        return None if answer is None else Document(answer.decode())

    def _answer_timeout_s(self, timeout_s: float | None) -> float:
        return self._limits.permission_timeout_s if timeout_s is None else timeout_s


class _InterruptWait:
    """A caller that waits for the answer to one interrupt."""

    __slots__ = ("_until_s", "_wake_event", "call_id", "is_done", "outcome", "timeout_s")

    def __init__(self, call_id: str, *, timeout_s: float) -> None:
        self.call_id = call_id
        self.timeout_s = timeout_s
        self.is_done = False
        self.outcome: Document | None = None
        self._until_s = asyncio.get_running_loop().time() + timeout_s
        self._wake_event = asyncio.Event()

    def handle_message(self, message: PubSubMessage) -> None:
        match message:
            case [Hint.ANSWER, call_id, answer]:
                if call_id == self.call_id:
                    self.finish(Document(answer))
            case [Hint.CANCEL]:
                self.notify()  # The next check finds the answer; the hint does not contain it.
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
        """Wait for a notification or for `within_s`. Return False if the time to answer is up."""
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


def _parse_claim(encoded: bytes) -> Claim:
    run_id, token = json.loads(encoded)
    return Claim(RunId(run_id), token)


def _encode_message(*fields: str) -> bytes:
    return json.dumps(fields).encode()


def _encode_text(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _to_documents(items: Any) -> tuple[Document, ...]:
    return tuple(Document(item.decode()) for item in items)
