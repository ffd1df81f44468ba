"""Questions to people as a job puts them: asked, waited for without a slot, and closed."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from headway.core.command.command import Command
from headway.core.command.question import AskQuestion, CloseQuestion, Outcome
from headway.core.document import encode_document
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
    """The questions of one execution. Several may be open at once."""

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

    async def ask(self, asks: AskQuestion, *, default: Any) -> Any:
        """What a person said; `default` when nobody did in time, a no when the run is to end."""
        call_id, outcome = asks.call_id, Outcome.TIMED_OUT
        asked = await self._apply(asks)
        answer = default
        if asked is None or asked.answer is None:
            found = await self._answer_to(call_id, asks.timeout_s)
            if found is not None:
                answer = found[0]
            elif self._execution.ending is not None:
                outcome = _OUTCOMES[self._execution.ending]
                answer = {"approved": False, "reason": self._execution.ending.value}
        else:
            answer = json.loads(asked.answer)
        otherwise = encode_document(answer, place="answer")
        # Somebody may have answered at the last moment, and was told that it counts.
        standing = await self._apply(
            CloseQuestion(self._execution.claim, call_id, otherwise, outcome)
        )
        if standing is None:
            await self._inbox.read()
            return self._inbox.answers.pop(call_id, answer)
        self._inbox.answers.pop(call_id, None)
        return json.loads(standing)

    async def _answer_to(self, call_id: str, timeout_s: float) -> tuple[Any] | None:
        self._execution.asking_count += 1
        try:
            async with self._slot.given_back():
                return await self._answer(call_id, timeout_s)
        finally:
            self._execution.asking_count -= 1

    async def _answer(self, call_id: str, timeout_s: float) -> tuple[Any] | None:
        """None: nobody has answered, and the time is over or the run is to end."""
        until_s = self._clock.monotonic_s() + timeout_s
        while True:  # Until it is answered, or the time is over.
            self._execution.news.clear()
            await self._inbox.read()
            if call_id in self._inbox.answers:
                return (self._inbox.answers.pop(call_id),)
            if self._execution.ending is not None:
                return None
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            try:
                async with self._clock.timeout(left_s):
                    await self._execution.news.wait()
            except TimeoutError:
                continue

    async def _apply(self, command: Command[A]) -> A:
        await self._flush()
        return await persistently(lambda: self._store.apply(command))
