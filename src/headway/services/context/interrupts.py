"""Interrupts are a job's questions to people: open them, await answers, and close them.

The job holds no slot while it waits for an answer.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

from headway.core.answer_schema import check_schema, find_mismatch
from headway.core.batch_state import Interrupt
from headway.core.command.protocol import Command
from headway.core.command.run.interrupt import (
    CloseInterrupt,
    OpenInterrupt,
    ReadInterrupts,
)
from headway.core.document import NULL, encode_document
from headway.core.errors import InvalidInput
from headway.core.event_payloads import InterruptOutcome
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.services.context.execution import Ending, Execution
from headway.services.context.inbox_reader import Inbox
from headway.services.context.slot_switch import Slot
from headway.services.retrying import retry_until_available

_OUTCOMES: Final = {
    Ending.CANCELLED: InterruptOutcome.CANCELLED,
    Ending.SHUTDOWN: InterruptOutcome.SHUTDOWN,
}


def denial(ending: Ending) -> dict[str, Any]:
    """Return the denial that answers an interrupt when its run must end for reason `ending`."""
    return {"approved": False, "reason": ending.value}


def parse_on_shutdown(on_shutdown: str, schema: dict[str, Any] | None) -> bool:
    """Return whether a shutdown answers the interrupt with a denial.

    Raise InvalidInput if `on_shutdown` is unknown, or if `schema` does not allow a denial.
    """
    if on_shutdown not in ("hand_over", "deny"):
        raise InvalidInput("on_shutdown", f"must be 'hand_over' or 'deny', not {on_shutdown!r}")
    is_denied = on_shutdown == "deny"
    if is_denied and schema is not None:
        check_schema(schema)
        mismatch = find_mismatch(schema, denial(Ending.SHUTDOWN))
        if mismatch is not None:
            problem = f"the denial does not match the schema: {mismatch[0]} {mismatch[1]}"
            raise InvalidInput("on_shutdown", problem)
    return is_denied


A = TypeVar("A")


class Interrupts:
    """The interrupts of one execution. Several may be open at once, each with its own call id."""

    def __init__(
        self,
        execution: Execution,
        store: Store,
        clock: Clock,
        *,
        inbox: Inbox,
        slot: Slot,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._execution = execution
        self._store = store
        self._clock = clock
        self._inbox = inbox
        self._slot = slot
        self._flush = flush
        self._open_call_ids: set[str] = set()
        """The call ids of the interrupts that this execution waits for now."""
        self._earlier: list[Interrupt] | None = [] if execution.claimed.generation == 1 else None
        """Interrupts of earlier executions that this execution has not opened itself.

        None until they are read.
        """
        self._recall_lock = asyncio.Lock()

    async def ask(
        self, asks: OpenInterrupt, *, default: Any, has_call_id: bool, denies_on_shutdown: bool
    ) -> Any:
        """Open an interrupt, and return a person's answer, or `default` if there is none in time.

        If the run is canceled, return a denial, or raise CancelledError if the schema does not
        allow a denial. If the process stops and `denies_on_shutdown` is set, return a denial.
        If the process stops and it is not set, raise CancelledError: the interrupt stays open for
        the next execution of the run, which opens it again with the same call id.
        """
        if not has_call_id:
            call_id = await self._earlier_call_id(asks)
            asks = asks if call_id is None else replace(asks, call_id=call_id)
        if asks.call_id in self._open_call_ids:
            problem = (
                f"{asks.call_id!r} is already open; use a different call_id for each interrupt"
            )
            raise InvalidInput("call_id", problem)
        self._open_call_ids.add(asks.call_id)
        self._execution.deny_on_shutdown_count += denies_on_shutdown
        try:
            async with self._close_on_cancel(asks.call_id):
                return await self._ask_and_wait(asks, default, is_denied=denies_on_shutdown)
        finally:
            self._execution.deny_on_shutdown_count -= denies_on_shutdown
            self._open_call_ids.remove(asks.call_id)
            if self._earlier:
                self._earlier = [
                    interrupt for interrupt in self._earlier if interrupt.call_id != asks.call_id
                ]

    async def _earlier_call_id(self, asks: OpenInterrupt) -> str | None:
        """Return the oldest call id under which an earlier execution asked the same question.

        Return None if there is none.
        """
        async with self._recall_lock:
            if self._earlier is None:
                stored = await self._apply(ReadInterrupts(self._execution.claim))
                generation = self._execution.claimed.generation
                self._earlier = [
                    interrupt for interrupt in stored if interrupt.generation != generation
                ]
        for interrupt in self._earlier:
            if asks.is_same_as(interrupt) and interrupt.call_id not in self._open_call_ids:
                self._earlier.remove(interrupt)
                return interrupt.call_id
        return None

    async def _ask_and_wait(self, asks: OpenInterrupt, default: Any, *, is_denied: bool) -> Any:
        self._hand_over_if_stopping(is_denied=is_denied)
        opened = await self._apply(asks)
        after_seq, timeout_s = 0, asks.timeout_s
        if opened is not None:
            after_seq, timeout_s = opened.seq, opened.timeout_s
        answer: tuple[Any] | None
        if opened is not None and opened.answer is not None:
            answer = (json.loads(opened.answer),)
            await self._inbox.read_answers()  # Otherwise the answer would stay unread in the inbox.
            self._inbox.take_answer(asks.call_id, after_seq=after_seq)
        else:
            answer = await self._wait_for_answer(asks.call_id, after_seq, timeout_s)
        self._hand_over_if_stopping(is_denied=is_denied)
        return await self._close(asks, default, answer, after_seq)

    def _hand_over_if_stopping(self, *, is_denied: bool) -> None:
        """Raise CancelledError if the interrupt must stay open for the next execution."""
        ending = self._execution.ending
        if ending is Ending.LOST or (ending is Ending.SHUTDOWN and not is_denied):
            raise asyncio.CancelledError

    async def _close(
        self, asks: OpenInterrupt, default: Any, received: tuple[Any] | None, after_seq: int
    ) -> Any:
        ending = self._execution.ending
        outcome, answer, is_valid = InterruptOutcome.TIMED_OUT, default, True
        if received is not None:
            (answer,) = received
        elif ending is not None:
            outcome, answer = _OUTCOMES[ending], denial(ending)
            is_valid = asks.schema is None or find_mismatch(json.loads(asks.schema), answer) is None
        proposed = encode_document(answer, field="answer") if is_valid else NULL
        # A person may have answered at the last moment, and that answer was accepted. The stored
        # answer therefore takes precedence over the proposed one.
        closes = CloseInterrupt(self._execution.claim, asks.call_id, proposed, outcome)
        stored = await self._apply(closes)
        if not is_valid:
            raise asyncio.CancelledError
        if received is not None or stored not in (None, proposed):  # A person has answered.
            self._execution.has_progressed = True
        if stored is not None:
            return json.loads(stored)
        await self._inbox.read_answers()
        received = self._inbox.take_answer(asks.call_id, after_seq=after_seq)
        return answer if received is None else received[0]

    async def _wait_for_answer(
        self, call_id: str, after_seq: int, timeout_s: float
    ) -> tuple[Any] | None:
        self._execution.open_interrupt_count += 1
        try:
            # Close the interrupt before waiting for a slot. Otherwise people could still answer.
            async with self._slot.open_wait(), self._close_on_cancel(call_id):
                return await self._poll_answer(call_id, after_seq, timeout_s)
        finally:
            self._execution.open_interrupt_count -= 1

    async def _poll_answer(
        self, call_id: str, after_seq: int, timeout_s: float
    ) -> tuple[Any] | None:
        """Wait for an answer, and return it in a tuple.

        Return None if the time is over, or if the run must end.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:  # Until an answer arrives or the time is over.
            self._execution.wakeup.clear()
            await self._inbox.read_answers()
            answer = self._inbox.take_answer(call_id, after_seq=after_seq)
            if answer is not None or self._execution.ending is not None:
                return answer
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            try:
                async with self._clock.timeout(left_s):
                    await self._execution.wakeup.wait()
            except TimeoutError:
                continue

    @asynccontextmanager
    async def _close_on_cancel(self, call_id: str) -> AsyncIterator[None]:
        """Close the interrupt if the job itself cancels the wait, for example by a timeout."""
        try:
            yield
        except asyncio.CancelledError:
            if self._execution.ending is None:
                await self._apply(CloseInterrupt(self._execution.claim, call_id, NULL))
            raise

    async def _apply(self, command: Command[A]) -> A:
        await self._flush()
        return await retry_until_available(lambda: self._store.apply(command))
