"""Read the inbox of one execution: each item is delivered once, and none is lost.

Messages stay in the inbox until the job reads them. A wait for an answer consumes answers only: a
consumed message would be lost if the execution ended before the job read it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headway.core.batch_state import MESSAGE, InboxItem
from headway.core.command.run.inbox import ANSWER, ConsumeInbox
from headway.core.run.run import Claim
from headway.core.secret import reveal
from headway.ports.store import Store
from headway.services.context.execution import Execution
from headway.services.retrying import retry_until_available


class Inbox:
    """The messages and answers that were sent to one execution."""

    def __init__(
        self, execution: Execution, store: Store, *, before_read: Callable[[], Awaitable[None]]
    ) -> None:
        self._wakeup = execution.wakeup
        self._before_read = before_read
        self._message_reader = _InboxReader(execution.claim, store, MESSAGE)
        self._answer_reader = _InboxReader(execution.claim, store, ANSWER)
        self._answers: dict[str, InboxItem] = {}

    async def take_messages(self) -> list[Any]:
        """Return the messages that arrived since the last call, in order."""
        await self._before_read()
        return [reveal(item.payload) for item in await self._message_reader.take()]

    async def read_answers(self) -> None:
        """Read the new answers to all open interrupts, so that `take_answer` can return them."""
        await self._before_read()
        try:
            items = await self._answer_reader.take()
        except asyncio.CancelledError:
            self._wakeup.set()  # A consumed answer that was not returned may be for another wait.
            raise
        for item in items:
            assert item.call_id is not None
            self._answers[item.call_id] = item
            self._wakeup.set()  # The answer may be for another wait, which has found nothing.

    def take_answer(self, call_id: str, *, after_seq: int) -> tuple[Any] | None:
        """Return the answer to `call_id` in a tuple, or None if there is none after `after_seq`."""
        item = self._answers.pop(call_id, None)
        return None if item is None or item.seq <= after_seq else (reveal(item.payload),)


class _InboxReader:
    """Consumes the inbox items of one kind, with one read at a time."""

    def __init__(self, claim: Claim, store: Store, kind: str) -> None:
        self._claim = claim
        self._store = store
        self._kind = kind
        self._lock = asyncio.Lock()
        self._read_seq = 0
        self._may_have_lost_answer = False

    async def take(self) -> tuple[InboxItem, ...]:
        async with self._lock:
            items = await retry_until_available(self._consume) or ()
            self._may_have_lost_answer = False
            if items:
                self._read_seq = items[-1].seq
            return items

    def _consume(self) -> Awaitable[tuple[InboxItem, ...] | None]:
        # The result may be lost if the database is unavailable or the job stops waiting. The next
        # read then requests the same items again.
        again_after = self._read_seq if self._may_have_lost_answer else None
        self._may_have_lost_answer = True
        opens_window = self._kind == MESSAGE
        return self._store.apply(ConsumeInbox(self._claim, self._kind, again_after, opens_window))
