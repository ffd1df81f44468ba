"""The runtime store of a single process: dictionaries without background tasks.

Nothing expires, because only this process holds leases, and the state ends with the process.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.core.document import Document
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.hint_bus import Hint
from headway.runtime.runtime_store import (
    CANCELED_ANSWER,
    SHUTDOWN_ANSWER,
    InjectAnswer,
    Phase,
    ResolveAnswer,
    RuntimeLimits,
)


@dataclass(slots=True, eq=False)
class _InterruptState:
    answer: Document | None = None
    waiters: set[asyncio.Future[Document | None]] = field(default_factory=set)

    def wake(self, outcome: Document | None) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(outcome)


@dataclass(slots=True, eq=False)
class _Queue:
    owner: Claim
    messages: deque[Document] = field(default_factory=deque)

    def take_all(self) -> tuple[Document, ...]:
        messages = tuple(self.messages)
        self.messages.clear()
        return messages


class MemoryRuntimeStore:
    """A `RuntimeStore` in memory, for use from one event loop."""

    def __init__(self, limits: RuntimeLimits | None = None) -> None:
        self._limits = limits or RuntimeLimits()
        self._leases: dict[Key, Claim] = {}
        self._phases: dict[Key, Phase] = {}
        self._interrupts: dict[RunId, dict[str, _InterruptState]] = {}
        self._canceled_ids: set[RunId] = set()
        self._queues: dict[RunId, _Queue] = {}
        self._listeners: dict[RunId, list[Callable[[Hint], None]]] = {}
        self._is_shut_down = False

    async def acquire_lease(self, key: Key, claim: Claim) -> RunId | None:
        holder = self._leases.setdefault(key, claim)
        return None if holder == claim else holder.run_id

    async def renew_lease(self, key: Key, claim: Claim) -> bool:
        return self._leases.get(key) == claim

    async def release_lease(self, key: Key, claim: Claim) -> bool:
        if self._leases.get(key) != claim:
            return False
        del self._leases[key]
        self._phases.pop(key, None)
        return True

    async def mark_interactive(
        self, key: Key, claim: Claim, phase: Phase = Phase.STREAMING
    ) -> bool:
        if self._leases.get(key) != claim:
            return False
        self._phases[key] = phase
        self._queues.setdefault(claim.run_id, _Queue(claim)).owner = claim
        return True

    async def clear_interactive(self, key: Key, claim: Claim) -> tuple[Document, ...]:
        if self._leases.get(key) == claim:
            self._phases.pop(key, None)
        queue = self._queues.get(claim.run_id)
        if queue is None or queue.owner != claim:
            return ()
        return self._queues.pop(claim.run_id).take_all()

    async def create_interrupt(
        self,
        run_id: RunId,
        call_id: str,
        *,
        timeout_s: float | None = None,  # noqa: ARG002 - Nothing expires here.
    ) -> bool:
        return self._open_interrupt(run_id, call_id) is not None

    async def wait_for_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> Document | None:
        interrupt = self._open_interrupt(run_id, call_id)
        if interrupt is None:
            return None
        if interrupt.answer is not None:
            return interrupt.answer
        outcome: Document | None = SHUTDOWN_ANSWER
        if not self._is_shut_down:
            outcome = await self._wait_for_answer(
                interrupt, self._limits.permission_timeout_s if timeout_s is None else timeout_s
            )
        if interrupt.answer is None:
            self._close_interrupt(run_id, call_id, interrupt)
        return outcome

    async def _wait_for_answer(
        self, interrupt: _InterruptState, timeout_s: float
    ) -> Document | None:
        waiter: asyncio.Future[Document | None] = asyncio.get_running_loop().create_future()
        interrupt.waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiter
        except TimeoutError:
            return interrupt.answer  # The answer may have arrived at the same moment.
        finally:
            interrupt.waiters.discard(waiter)

    async def resolve_interrupt(
        self, run_id: RunId, call_id: str, answer: Document
    ) -> ResolveAnswer:
        interrupts = self._interrupts.get(run_id, {})
        interrupt = interrupts.get(call_id)
        if interrupt is not None and interrupt.answer is None:
            interrupt.answer = answer
            interrupt.wake(answer)
            self._notify(run_id, Hint.ANSWER)
            return ResolveAnswer.RESOLVED
        is_waiting = any(other.answer is None for other in interrupts.values())
        return ResolveAnswer.STALE if is_waiting else ResolveAnswer.NOT_WAITING

    async def request_cancel(self, run_id: RunId) -> None:
        self._canceled_ids.add(run_id)
        for interrupt in self._interrupts.get(run_id, {}).values():
            if interrupt.answer is None:
                interrupt.answer = CANCELED_ANSWER
                interrupt.wake(CANCELED_ANSWER)
        self._notify(run_id, Hint.CANCEL)

    async def is_cancelled(self, run_id: RunId) -> bool:
        return run_id in self._canceled_ids

    async def inject_message(self, key: Key, run_id: RunId, message: Document) -> InjectAnswer:
        holder, phase = self._leases.get(key), self._phases.get(key)
        queue = self._queues.get(run_id)
        if holder is None or holder.run_id != run_id:
            return InjectAnswer.NO_ACTIVE_RUN
        if phase is None or queue is None:
            return InjectAnswer.NOT_STREAMING
        if phase is Phase.COMPACTING:
            return InjectAnswer.COMPACTING
        if len(queue.messages) >= self._limits.message_count_max:
            return InjectAnswer.FULL
        queue.messages.append(message)
        self._notify(run_id, Hint.MESSAGE)
        return InjectAnswer.INJECTED

    async def drain_messages(self, claim: Claim) -> tuple[Document, ...]:
        queue = self._queues.get(claim.run_id)
        return () if queue is None or queue.owner != claim else queue.take_all()

    async def publish_hint(self, run_id: RunId, hint: Hint) -> None:
        self._notify(run_id, hint)

    async def watch(self, run_id: RunId, listener: Callable[[Hint], None]) -> Callable[[], None]:
        self._listeners.setdefault(run_id, []).append(listener)

        def stop() -> None:
            listeners = self._listeners.get(run_id, [])
            if listener in listeners:
                listeners.remove(listener)
            if not listeners:
                self._listeners.pop(run_id, None)

        return stop

    async def cleanup_execution(self, key: Key, claim: Claim) -> None:
        holder = self._leases.get(key)
        if holder is not None and holder.run_id == claim.run_id and holder != claim:
            return
        for interrupt in self._interrupts.pop(claim.run_id, {}).values():
            interrupt.wake(None)
        self._canceled_ids.discard(claim.run_id)
        self._queues.pop(claim.run_id, None)
        await self.release_lease(key, claim)

    async def shutdown_cleanup(self) -> None:
        self._is_shut_down = True
        for interrupts in self._interrupts.values():
            for interrupt in interrupts.values():
                interrupt.wake(SHUTDOWN_ANSWER)

    def _open_interrupt(self, run_id: RunId, call_id: str) -> _InterruptState | None:
        interrupts = self._interrupts.setdefault(run_id, {})
        if call_id not in interrupts:
            if len(interrupts) >= self._limits.interrupt_count_max:
                return None
            interrupts[call_id] = _InterruptState(
                CANCELED_ANSWER if run_id in self._canceled_ids else None
            )
        return interrupts[call_id]

    def _close_interrupt(self, run_id: RunId, call_id: str, interrupt: _InterruptState) -> None:
        interrupts = self._interrupts.get(run_id, {})
        if interrupts.get(call_id) is interrupt:
            del interrupts[call_id]
            if not interrupts:
                del self._interrupts[run_id]

    def _notify(self, run_id: RunId, hint: Hint) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners.get(run_id, ()):
            loop.call_soon(listener, hint)
