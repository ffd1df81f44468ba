"""Handles to runs: read, cancel and message a run, and wait for its result or events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

from headway.core.batch_state import MESSAGE
from headway.core.command.run.cancel import GRACE_S, CancelResult, RequestCancel
from headway.core.command.run.idempotency import IdempotencyMismatch
from headway.core.command.run.inbox import (
    ANSWER,
    InboxFull,
    MessageNotAccepted,
    NotActive,
    PostToInbox,
    UnknownRun,
)
from headway.core.command.run.interrupt import AnswerMismatch, NoOpenInterrupt
from headway.core.document import encode_document, parse_enum
from headway.core.duration import check_seconds
from headway.core.errors import (
    IdempotencyConflict,
    InboxOverflow,
    InterruptNotOpen,
    InvalidInput,
    MessageRefused,
    RunFailed,
    RunNotActive,
    RunNotFound,
)
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.core.run.run import FilesOnCancel, RunRecord
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.core.run.window import Delivery, Refusal, Window
from headway.ports.event_reader import EventReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.end_children import end_children_after_cancel
from headway.services.submit.run_watcher import RunWatcher

PAGE_SIZE: Final = 500
PAGE_LENGTH_MAX: Final = 1 << 20


def result_or_raise(record: RunRecord) -> Any:
    """Return the result of an ended run. Raise RunFailed unless the run has succeeded."""
    if record.run.status is RunStatus.SUCCEEDED:
        assert record.result is not None
        return json.loads(record.result)
    raise RunFailed(record.run.id, record.run.status, _to_error(record))


class RunHandle:
    """A handle to a run, to read, cancel, message or await the run.

    Dropping the handle does not affect the run.
    """

    def __init__(
        self,
        run_id: RunId,
        *,
        store: Store,
        runs: RunReader,
        events: EventReader,
        watcher: RunWatcher,
    ) -> None:
        self.id = run_id
        self.accepted_record: RunRecord | None = None
        """The record of the run when it was accepted, if its submission returned this handle."""
        self._store = store
        self._runs = runs
        self._events = events
        self._watcher = watcher

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def record(self) -> RunRecord:
        """Return the record of the run. The documents in the record are JSON text.

        Raise RunNotFound if the run does not exist.
        """
        record = await self._runs.run(self.id)
        if record is None:
            raise RunNotFound(self.id)
        return record

    async def status(self) -> RunStatus:
        return (await self.record()).run.status

    async def cancel(
        self,
        *,
        files: FilesOnCancel | str = FilesOnCancel.KEEP,
        reason: str = "",
        by: str = "",
        grace_s: float = GRACE_S,
    ) -> CancelResult:
        """Request that the run and its children are canceled.

        The result shows whether the run is already canceled, or still has to end.
        """
        answer = await self._store.apply(
            RequestCancel(
                run_id=self.id,
                files=parse_enum(FilesOnCancel, files, field="files"),
                reason=reason,
                by=by,
                grace_s=grace_s,
            )
        )
        await end_children_after_cancel(self._store, self._runs, self.id, answer)
        return answer

    async def send(
        self,
        message: Any,
        *,
        deliver: Delivery | str = Delivery.NOW,
        by: str = "",
        idempotency_key: str | None = None,
    ) -> None:
        """Send a message that the job reads with `ctx.messages()`.

        The message is accepted only while the job listens. Raise MessageRefused with the reason if
        the job does not listen. With `deliver="when_listening"` the message stays in the inbox of a
        run that has not started or does not listen yet, until the run listens. Unread messages are
        reported when the run ends.

        Raise RunNotActive if the run has ended, RunNotFound if there is no such run, and
        InboxOverflow if the run has too many unread messages. Calls with the same `idempotency_key`
        send the message once. Raise IdempotencyConflict if the key was used for another request.
        """
        await self._post(
            MESSAGE,
            message,
            by=by,
            delivery=parse_enum(Delivery, deliver, field="deliver"),
            idempotency_key=idempotency_key,
        )

    async def steer(self, message: Any, *, by: str = "") -> Refusal | None:
        """Send a message like `send`. Return None if it is accepted, or else why it is refused."""
        try:
            await self._post(MESSAGE, message, by=by)
        except (RunNotActive, RunNotFound):
            return Refusal.NO_ACTIVE_RUN
        except MessageRefused as error:
            return Refusal(error.reason)
        except InboxOverflow:
            return Refusal.FULL
        return None

    async def is_streaming(self) -> bool:
        """Return whether the job accepts messages now."""
        return (await self.record()).run.window == Window.STREAMING

    async def is_compacting(self) -> bool:
        return (await self.record()).run.window == Window.COMPACTING

    async def answer(self, call_id: str, answer: Any, *, by: str = "") -> None:
        """Answer an interrupt that the job opened with `ctx.interrupt()`. The first answer wins.

        An interrupt stays open while no process executes the run. Raise InterruptNotOpen if the
        interrupt was already answered or is not open. Raise InvalidInput if the answer does not
        match the schema of the interrupt, which then stays open.
        """
        await self._post(ANSWER, answer, by=by, call_id=call_id)

    async def _post(
        self,
        kind: str,
        payload: Any,
        *,
        by: str,
        call_id: str | None = None,
        delivery: Delivery = Delivery.NOW,
        idempotency_key: str | None = None,
    ) -> None:
        document = encode_document(payload, field=kind)
        answer = await self._store.apply(
            PostToInbox(
                run_id=self.id,
                kind=kind,
                payload=document,
                by=by,
                call_id=call_id,
                delivery=delivery,
                idempotency_key=idempotency_key,
            )
        )
        if isinstance(answer, IdempotencyMismatch):
            assert idempotency_key is not None
            raise IdempotencyConflict(idempotency_key, answer.run_id)
        if isinstance(answer, UnknownRun):
            raise RunNotFound(self.id)
        if isinstance(answer, NotActive):
            raise RunNotActive(self.id)
        if isinstance(answer, InboxFull):
            raise InboxOverflow(self.id, answer.unread_count_max)
        if isinstance(answer, MessageNotAccepted):
            raise MessageRefused(self.id, answer.refusal.value, can_wait=answer.can_wait)
        if isinstance(answer, AnswerMismatch):
            raise InvalidInput(answer.field, answer.problem)
        if isinstance(answer, NoOpenInterrupt):
            assert call_id is not None
            raise InterruptNotOpen(
                self.id,
                call_id,
                is_answered=answer.is_answered,
                open_call_ids=answer.open_call_ids,
            )

    async def interrupts(self) -> dict[str, Any]:
        """Return the question of each open, unanswered interrupt, by its `call_id`."""
        interrupts = await self._runs.interrupts(self.id)
        return {interrupt.call_id: json.loads(interrupt.question) for interrupt in interrupts}

    async def result(self, timeout_s: float | None = None) -> Any:
        """Wait for the end of the run, and return its result.

        Raise RunFailed if the run has no result. Raise TimeoutError if the wait takes longer than
        `timeout_s`. The run then continues.
        """
        if timeout_s is not None:
            check_seconds(timeout_s, field="timeout_s")
        try:
            async with asyncio.timeout(timeout_s):
                record = await self.wait_for_end()
        except TimeoutError:
            problem = f"run {self.id} has not ended within {timeout_s:g} s; it continues"
            raise TimeoutError(problem) from None
        return result_or_raise(record)

    async def wait_for_end(self) -> RunRecord:
        """Wait without a limit until the run has ended, and return its record."""
        return await self._watcher.wait_for_end(self.id)

    async def events(self, *, after_seq: int = 0) -> AsyncIterator[Event]:
        """Yield the events of the run after `after_seq`, as they occur, until the run has ended."""
        with self._watcher.open_waiter(self.id) as waiter:
            while True:  # Until the run has ended.
                waiter.begin_read()
                # Read the run before its events: the events of an ended run are then complete.
                run = (await self.record()).run
                waiter.note_seen(run.run_seq)
                while True:  # Until all stored events are read.
                    page = await self._events.events(
                        after_seq=after_seq,
                        limit=PAGE_SIZE,
                        length_max=PAGE_LENGTH_MAX,
                        run_id=self.id,
                    )
                    for event in page.events:
                        after_seq = event.seq
                        yield event
                    if not page.has_more:
                        break
                if run.status in TERMINAL:
                    return
                await waiter.wait()


def _to_error(record: RunRecord) -> Any:
    """Return the error of an ended run, or why it was canceled. Return None if there is neither."""
    if record.error is not None:
        return json.loads(record.error)
    reason = "" if record.cancel is None else json.loads(record.cancel)["reason"]
    has_reason = reason and record.run.status is RunStatus.CANCELED
    return {"code": "canceled", "message": reason} if has_reason else None
