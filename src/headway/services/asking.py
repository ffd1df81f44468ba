"""Questions to people as a job puts them: asked, waited for without a slot, and closed."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from headway.core.command.command import Command
from headway.core.command.question import AskQuestion, CloseQuestion, Outcome
from headway.core.document import Document, encode_document
from headway.core.errors import InvalidInput
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.services.execution import Ending, Execution
from headway.services.inbox import Inbox
from headway.services.patience import persistently
from headway.services.slot import Slot

_OUTCOMES: Final = {
    Ending.CANCELLED: Outcome.CANCELLED,
    Ending.SHUTDOWN: Outcome.SHUTDOWN,
    Ending.LOST: Outcome.SHUTDOWN,
}

A = TypeVar("A")


class Asking:
    """The questions of one execution. Several may be open at once, each under its own name."""

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
        self._call_ids: set[str] = set()
        """What is asked now."""

    async def ask(self, asks: AskQuestion, *, default: Any) -> Any:
        """What a person said; `default` when nobody did in time, a no when the run is to end."""
        if asks.call_id in self._call_ids:
            problem = f"{asks.call_id!r} is asked now; each question that is open has its own"
            raise InvalidInput("call_id", problem)
        self._call_ids.add(asks.call_id)
        try:
            async with self._closed_if_given_up(asks.call_id):
                return await self._ask(asks, default)
        finally:
            self._call_ids.remove(asks.call_id)

    async def _ask(self, asks: AskQuestion, default: Any) -> Any:
        call_id, outcome, answer = asks.call_id, Outcome.TIMED_OUT, default
        asked = await self._apply(asks)
        after_seq = 0 if asked is None else asked.seq
        if asked is not None and asked.answer is not None:
            answer = json.loads(asked.answer)
        elif found := await self._answer_to(asks, after_seq):
            (answer,) = found
        elif self._execution.ending is not None:
            outcome = _OUTCOMES[self._execution.ending]
            answer = {"approved": False, "reason": self._execution.ending.value}
        otherwise = encode_document(answer, place="answer")
        # Somebody may have answered at the last moment, and was told that it counts.
        closes = CloseQuestion(self._execution.claim, call_id, otherwise, outcome)
        standing = await self._apply(closes)
        if standing is not None:
            return json.loads(standing)
        await self._inbox.read_answers()
        found = self._inbox.take_answer(call_id, after_seq=after_seq)
        return answer if found is None else found[0]

    async def _answer_to(self, asks: AskQuestion, after_seq: int) -> tuple[Any] | None:
        self._execution.asking_count += 1
        try:
            # Closed before it waits for its slot: until then people could still answer.
            async with self._slot.given_back(), self._closed_if_given_up(asks.call_id):
                return await self._answer(asks, after_seq)
        finally:
            self._execution.asking_count -= 1

    async def _answer(self, asks: AskQuestion, after_seq: int) -> tuple[Any] | None:
        """None: nobody has answered, and the time is over or the run is to end."""
        until_s = self._clock.monotonic_s() + asks.timeout_s
        while True:  # Until it is answered, or the time is over.
            self._execution.news.clear()
            await self._inbox.read_answers()
            found = self._inbox.take_answer(asks.call_id, after_seq=after_seq)
            if found is not None or self._execution.ending is not None:
                return found
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            try:
                async with self._clock.timeout(left_s):
                    await self._execution.news.wait()
            except TimeoutError:
                continue

    @asynccontextmanager
    async def _closed_if_given_up(self, call_id: str) -> AsyncIterator[None]:
        """When the job itself has set a limit to the wait, people are not asked any longer."""
        try:
            yield
        except asyncio.CancelledError:
            if self._execution.ending is None:
                await self._apply(CloseQuestion(self._execution.claim, call_id, Document("null")))
            raise

    async def _apply(self, command: Command[A]) -> A:
        await self._flush()
        return await persistently(lambda: self._store.apply(command))
