"""What a job is given, and what it may say while it runs."""

import asyncio
import json
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import Any, Final, TypeVar

from headway.core.command.command import Command
from headway.core.command.inbox import ANSWER, MESSAGE, ConsumeInbox
from headway.core.command.question import AskQuestion, CloseQuestion
from headway.core.command.report import AppendEvent, SaveCheckpoint
from headway.core.document import encode_document
from headway.core.duration import check_seconds
from headway.core.errors import InvalidInput
from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import Mode
from headway.core.run.status import RunStatus
from headway.core.world import InboxItem
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.services.children import Children
from headway.services.execution import Execution
from headway.services.files import FileWriter, RunFiles
from headway.services.handle import outcome_of
from headway.services.patience import persistently
from headway.services.progress import ProgressReport
from headway.services.slot import Slot

SLOT_KEPT_S: Final = 1.0
"""Who waits for less keeps its slot: to give it back and get it again costs more."""
ANSWER_TIMEOUT_S: Final = 300.0
RESERVED_PREFIXES: Final = ("run_", "lane_", "key_", "permission_")

A = TypeVar("A")


class ChildRun:
    """A child of the run whose job holds this."""

    def __init__(self, run_id: RunId, children: Children, slot: Slot) -> None:
        self.id = run_id
        self._children = children
        self._slot = slot

    def __repr__(self) -> str:
        return f"ChildRun({self.id!r})"

    async def status(self) -> RunStatus:
        return (await self._children.record(self.id)).run.status

    async def result(self) -> Any:
        """What its job returned, once it has; RunFailed when it ends in any other way.

        While it is active, the parent waits without a slot.
        """
        record = await self._children.record(self.id)
        if record.run.is_active:
            async with self._slot.given_back():
                record = await self._children.ended(self.id)
        return outcome_of(record)


class RunContext:
    """One execution of one run. Pass `generation` on to whatever must not hear an older one.

    While the job waits in `sleep` (a second or more), in `interrupt` or for a child, the run keeps
    its key and gives its slot to others; it goes on when it has one again, ahead of runs that are
    only queued.

    Besides what it can say and ask, it has `run_id`, `key`, `mode` (start or continue), `params`,
    `checkpoint` (what this run saved last, or the run that it continues), `generation` (how often
    the run was claimed) and `attempt` (1, and one more for each retry).
    """

    def __init__(
        self,
        execution: Execution,
        store: Store,
        clock: Clock,
        *,
        children: Children,
        files: RunFiles,
    ) -> None:
        claimed = execution.claimed
        self._execution = execution
        self._claim = execution.claim
        self._store = store
        self._slot = Slot(execution, store)
        self._children = children
        self._files = files
        self._clock = clock
        self._progress = ProgressReport(store, self._claim)
        self._messages: list[Any] = []
        self._answers: dict[str, Any] = {}
        self._question_count = 0
        self._reading = asyncio.Lock()
        self._read_seq = 0
        self._may_have_missed = False
        self.run_id: RunId = claimed.run_id
        self.key: Key = claimed.key
        self.mode: Mode = claimed.mode
        self.generation: int = claimed.generation
        self.attempt: int = claimed.attempt
        """1, and one more for each retry."""
        self.checkpoint: Any = (
            None if claimed.checkpoint is None else json.loads(claimed.checkpoint)
        )
        """What this run saved last, or the run that it continues."""

    @cached_property
    def params(self) -> dict[str, Any]:
        """As they were submitted, defaults included."""
        params: dict[str, Any] = json.loads(self._execution.claimed.params)
        return params

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

    def file(self, path: str) -> AbstractAsyncContextManager[FileWriter]:
        """Write a file in the folder of the run's key: `async with ctx.file("photos/1.jpg") as f`.

        It has its name once the block has ended without an error, whole and all at once; until
        then it is a `.part`, which an error or a cancel removes.
        """
        return self._files.written(path)

    async def has_file(self, path: str) -> bool:
        """Whether the key has this file, whole, of whichever run."""
        return await self._files.has(path)

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
            await self._clock.sleep(seconds)
            return
        until_s = self._clock.monotonic_s() + seconds
        async with self._slot.given_back():  # Which takes a moment that is part of the sleep.
            await self._clock.sleep(max(0.0, until_s - self._clock.monotonic_s()))

    async def interrupt(self, question: Any, *, timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        """A person's answer to `question`; None when nobody answers in time: treat it as a no.

        When the run is to end meanwhile, the answer is `{"approved": false, "reason": …}`.
        """
        check_seconds(timeout_s, place="timeout_s")
        self._question_count += 1
        call_id = f"{self.generation}.{self._question_count}"
        document = encode_document(question, place="interrupt")
        asked = await self._apply(AskQuestion(self._claim, call_id, document))
        if asked is None or asked.answer is None:
            answer = await self._answer_to(call_id, timeout_s)
        else:
            answer = json.loads(asked.answer)
        otherwise = encode_document(answer, place="answer")
        # Somebody may have answered at the last moment, and was told that it counts.
        standing = await self._apply(CloseQuestion(self._claim, call_id, otherwise))
        if standing is None:
            await self._read_inbox()
            return self._answers.pop(call_id, answer)
        self._answers.pop(call_id, None)
        return json.loads(standing)

    async def _answer_to(self, call_id: str, timeout_s: float) -> Any:
        self._execution.is_asking = True
        try:
            async with self._slot.given_back():
                return await self._answer(call_id, timeout_s)
        finally:
            self._execution.is_asking = False

    async def start(
        self,
        job: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        name: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> "ChildRun":
        """Start a run of `job` as a child of this one, once, however often this run is executed.

        Asked for the same again (job, key and parameters, for the same time in this execution),
        or under the same `name`, it is the same child. A retry starts anew what has failed. What
        is still active when this run ends is cancelled. KeyBusy, LaneFull: as for any run.
        ChildRefused: it could never start, or there are too many.
        """
        run_id = await self._children.start(
            job, key=key, params=params, name=name, on_conflict=on_conflict
        )
        return ChildRun(run_id, self._children, self._slot)

    async def call(
        self,
        job: str,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        name: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> Any:
        """`start` a child and wait for its result, without a slot; RunFailed if it has none."""
        child = await self.start(job, key=key, params=params, name=name, on_conflict=on_conflict)
        return await child.result()

    @property
    def execution(self) -> Execution:
        """For the engine: what it was told."""
        return self._execution

    @property
    def files(self) -> RunFiles:
        """For the engine, and for jobs that are plain functions."""
        return self._files

    async def end(self) -> None:
        """For the engine: write down what has waited."""
        await self._progress.end()

    async def _apply(self, command: Command[A]) -> A:
        # An outage is not the job's fault. When it costs the lease, the execution is ended.
        return await persistently(lambda: self._store.apply(command))

    async def _append(self, kind: str, payload: Any) -> None:
        await self._apply(AppendEvent(self._claim, kind, payload))

    async def _answer(self, call_id: str, timeout_s: float) -> Any:
        until_s = self._clock.monotonic_s() + timeout_s
        while True:  # Until it is answered, or the time is over.
            self._execution.news.clear()
            await self._read_inbox()
            if call_id in self._answers:
                return self._answers.pop(call_id)
            ending = self._execution.ending
            if ending is not None:
                return {"approved": False, "reason": ending.value}
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            try:
                async with self._clock.timeout(left_s):
                    await self._execution.news.wait()
            except TimeoutError:
                continue

    async def _read_inbox(self) -> None:
        async with self._reading:
            items = await persistently(self._consume) or ()
            self._may_have_missed = False
        for item in items:
            self._read_seq = item.seq
            payload = json.loads(item.payload)
            if item.kind == MESSAGE:
                self._messages.append(payload)
            elif item.kind == ANSWER and item.call_id is not None:
                self._answers[item.call_id] = payload

    def _consume(self) -> Awaitable[tuple[InboxItem, ...] | None]:
        # What came of this may never be heard, if the database goes away or the job stops
        # waiting; then the next look asks for it once more.
        again_after = self._read_seq if self._may_have_missed else None
        self._may_have_missed = True
        return self._store.apply(ConsumeInbox(self._claim, again_after))
