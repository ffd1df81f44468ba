"""What came in for one execution: each item is taken once, and none is lost on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headway.core.command.inbox import ANSWER, MESSAGE, ConsumeInbox
from headway.core.run.run import Claim
from headway.core.secret import opened
from headway.core.world import InboxItem
from headway.ports.store import Store
from headway.services.patience import persistently


class Inbox:
    def __init__(
        self, claim: Claim, store: Store, *, before_look: Callable[[], Awaitable[None]]
    ) -> None:
        self._claim = claim
        self._store = store
        self._before_look = before_look
        self._reading = asyncio.Lock()
        self._read_seq = 0
        self._may_have_missed = False
        self.messages: list[Any] = []
        self._answers: dict[str, InboxItem] = {}

    async def read(self) -> None:
        await self._before_look()
        async with self._reading:
            items = await persistently(self._consume) or ()
            self._may_have_missed = False
        for item in items:
            self._read_seq = item.seq
            if item.kind == MESSAGE:
                self.messages.append(opened(item.payload))
            elif item.kind == ANSWER and item.call_id is not None:
                self._answers[item.call_id] = item

    def take_answer(self, call_id: str, *, after_seq: int) -> tuple[Any] | None:
        """What was read, unless it came too early to be an answer to what is asked now."""
        item = self._answers.pop(call_id, None)
        return None if item is None or item.seq <= after_seq else (opened(item.payload),)

    def _consume(self) -> Awaitable[tuple[InboxItem, ...] | None]:
        # What came of this may never be heard, if the database goes away or the job stops
        # waiting; then the next look asks for it once more.
        again_after = self._read_seq if self._may_have_missed else None
        self._may_have_missed = True
        return self._store.apply(ConsumeInbox(self._claim, again_after))
