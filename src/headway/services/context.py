"""What a job is given, and what it may say while it runs."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from headway.core.command.command import Command
from headway.core.command.inbox import ANSWER, MESSAGE, ConsumeInbox
from headway.core.command.report import AppendEvent, SaveCheckpoint
from headway.core.command.wait import GiveSlotBack, WantSlot
from headway.core.document import encode_document
from headway.core.duration import check_seconds
from headway.core.errors import InvalidInput
from headway.core.ids import Key, RunId
from headway.core.run.events import EventType
from headway.core.run.run import Mode
from headway.ports.store import Store
from headway.services.execution import Execution
from headway.services.patience import persistently
from headway.services.progress import ProgressReport

SLOT_KEPT_S: Final = 1.0
"""Who waits for less keeps its slot: to give it back and get it again costs more."""
ANSWER_TIMEOUT_S: Final = 300.0
RESERVED_PREFIXES: Final = ("run_", "lane_", "key_", "permission_")

A = TypeVar("A")


class RunContext:
    """One execution of one run. Pass `generation` on to whatever must not hear an older one.

    While the job waits in `sleep` (a second or more) or `interrupt`, the run keeps its key and
    gives its slot to others; it goes on when it has one again, ahead of runs that are only queued.

    Besides what it can say and ask, it has `run_id`, `key`, `mode` (start or continue), `params`,
    `checkpoint` (what this run saved last, or the run that it continues), `generation` (how often
    the run was claimed) and `attempt` (1, and one more for each retry).
    """

    def __init__(self, execution: Execution, store: Store) -> None:
        claimed = execution.claimed
        self._execution = execution
        self._claim = execution.claim
        self._store = store
        self._progress = ProgressReport(store, self._claim)
        self._messages: list[Any] = []
        self._answers: dict[str, Any] = {}
        self._question_count = 0
        self.run_id: RunId = claimed.run_id
        self.key: Key = claimed.key
        self.mode: Mode = claimed.mode
        self.generation: int = claimed.generation
        self.attempt: int = claimed.attempt
        """1, and one more for each retry."""
        self.params: dict[str, Any] = json.loads(claimed.params)
        self.checkpoint: Any = (
            None if claimed.checkpoint is None else json.loads(claimed.checkpoint)
        )
        """What this run saved last, or the run that it continues."""

    @property
    def cancelled(self) -> bool:
        """Whether the job should come to its end. An async job is cancelled besides."""
        return self._execution.ending is not None

    async def progress(self, **figures: Any) -> None:
        """Replace the run's progress by `figures`; ten times a second it is written down."""
        await self._progress.put(encode_document(figures, place="progress"))

    async def save_checkpoint(self, checkpoint: Any) -> None:
        """From here a later execution goes on, after a crash or by Continue."""
        document = encode_document(checkpoint, place="checkpoint")
        await self._apply(SaveCheckpoint(self._claim, document))
        self.checkpoint = checkpoint

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """A line for people to read, kept with the run."""
        line = {"level": level, "message": message, **fields}
        await self._append(EventType.LOG, encode_document(line, place="log"))

    async def emit(self, kind: str, payload: Any = None) -> None:
        """An event of the job's own making, for whoever watches the run."""
        if kind.startswith(RESERVED_PREFIXES):
            raise InvalidInput("kind", f"{kind!r} is one of headway's own; choose another word")
        await self._append(kind, encode_document(payload, place="payload"))

    async def messages(self) -> list[Any]:
        """What people have sent to the run since the last look, in order."""
        await self._read_inbox()
        messages, self._messages = self._messages, []
        return messages

    async def sleep(self, seconds: float) -> None:
        """Wait; from a second on without a slot, which others use meanwhile."""
        check_seconds(seconds, place="seconds")
        if seconds < SLOT_KEPT_S:
            await asyncio.sleep(seconds)
        else:
            await self._without_slot(lambda: asyncio.sleep(seconds))

    async def interrupt(self, question: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """A person's answer to `question`; None when nobody answers in time: treat it as a no.

        When the run is to end meanwhile, the answer is `{"approved": false, "reason": …}`.
        """
        check_seconds(timeout_s, place="timeout_s")
        self._question_count += 1
        call_id = f"{self.generation}.{self._question_count}"
        asked = encode_document({"call_id": call_id, "question": question}, place="interrupt")
        await self._append(EventType.PERMISSION_REQUEST, asked)
        self._execution.is_asking = True
        try:
            answer = await self._without_slot(lambda: self._answer(call_id, timeout_s))
        finally:
            self._execution.is_asking = False
        told = encode_document({"call_id": call_id, "answer": answer}, place="answer")
        await self._append(EventType.PERMISSION_RESULT, told)
        return answer

    @property
    def execution(self) -> Execution:
        """For the engine: what it was told."""
        return self._execution

    async def end(self) -> None:
        """For the engine: write down what has waited."""
        await self._progress.end()

    async def _apply(self, command: Command[A]) -> A:
        # An outage is not the job's fault. When it costs the lease, the execution is ended.
        return await persistently(lambda: self._store.apply(command))

    async def _append(self, kind: str, payload: Any) -> None:
        await self._apply(AppendEvent(self._claim, kind, payload))

    async def _without_slot(self, wait: Callable[[], Awaitable[A]]) -> A:
        has_given = await self._apply(GiveSlotBack(self._claim))
        try:
            return await wait()
        finally:  # Also when the job itself has set a limit to the wait.
            if has_given and self._execution.ending is None:
                slot = self._execution.expect_slot()
                # A refusal is no reason to go on without one: it stands in the queue already
                # (the first answer was lost), or it is to end, and is told so in a moment.
                await self._apply(WantSlot(self._claim))
                await slot

    async def _answer(self, call_id: str, timeout_s: float) -> Any:
        until_s = time.monotonic() + timeout_s
        while True:  # Until it is answered, or the time is over.
            self._execution.news.clear()
            await self._read_inbox()
            if call_id in self._answers:
                return self._answers.pop(call_id)
            ending = self._execution.ending
            if ending is not None:
                return {"approved": False, "reason": ending.value}
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return None
            try:
                async with asyncio.timeout(left_s):
                    await self._execution.news.wait()
            except TimeoutError:
                continue

    async def _read_inbox(self) -> None:
        for item in await self._apply(ConsumeInbox(self._claim)) or ():
            payload = json.loads(item.payload)
            if item.kind == MESSAGE:
                self._messages.append(payload)
            elif item.kind == ANSWER and item.call_id is not None:
                self._answers[item.call_id] = payload
