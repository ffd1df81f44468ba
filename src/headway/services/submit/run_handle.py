"""A run that was accepted, in the hands of whoever started it."""

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
    Error,
    IdempotencyConflict,
    InboxOverflow,
    InterruptNotOpen,
    InvalidInput,
    MessageRefused,
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


class RunFailed(Error):
    """The run ended without a result; `status` says how and `error` why."""

    def __init__(self, run_id: RunId, status: RunStatus, error: Any) -> None:
        why = f": {error['message']}" if error else ""
        super().__init__(f"run {run_id} is {status.value}{why}")
        self.run_id = run_id
        self.status = status
        self.error = error


def result_or_raise(record: RunRecord) -> Any:
    """The result of a run that is over; RunFailed when there is none."""
    if record.run.status is RunStatus.SUCCEEDED:
        assert record.result is not None
        return json.loads(record.result)
    raise RunFailed(record.run.id, record.run.status, _to_error(record))


class RunHandle:
    """It goes on whether or not anybody holds its handle."""

    def __init__(
        self,
        run_id: RunId,
        *,
        store: Store,
        runs: RunReader,
        events: EventReader,
        watcher: RunWatcher,
        accepted_record: RunRecord | None = None,
    ) -> None:
        self.id = run_id
        self.accepted_record = accepted_record
        """The run as it was accepted, if this is the handle that came of it."""
        self._store = store
        self._runs = runs
        self._events = events
        self._watcher = watcher

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def record(self) -> RunRecord:
        """All that is known of the run now; its documents are JSON text."""
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
        """Ask for its end; the answer tells whether it is over already or has yet to unwind.

        What it has started as a parent is asked to end with it.
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
        it does not. With `deliver="when_listening"` a run that has not started or does not listen
        yet stores the message in its inbox until it listens. Unread messages are reported when the
        run ends.

        Raise RunNotActive if the run has ended, RunNotFound if there is no such run, and
        InboxOverflow if it has too many unread messages. With the same `idempotency_key` the
        message is sent once, however often this is called. Raise IdempotencyConflict if the key
        was used for another request.
        """
        await self._post(
            MESSAGE,
            message,
            by=by,
            delivery=parse_enum(Delivery, deliver, field="deliver"),
            idempotency_key=idempotency_key,
        )

    async def steer(self, message: Any, *, by: str = "") -> Refusal | None:
        """Send a message as `send` does, but return the refusal, or None if it is accepted."""
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
        """Whether its loop takes messages now."""
        return (await self.record()).run.window == Window.STREAMING

    async def is_compacting(self) -> bool:
        return (await self.record()).run.window == Window.COMPACTING

    async def answer(self, call_id: str, answer: Any, *, by: str = "") -> None:
        """Answer a question that the job asks in `ctx.interrupt()`; the first answer stands.

        Raise QuestionNotOpen if it was already answered, or the job does not ask it (any more).
        A question stays open while no process executes the run. Raise InvalidInput if the answer
        does not fit the schema of the question, which stays open.
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
        """What the job asks now and nobody has answered, by `call_id`."""
        asked = await self._runs.interrupts(self.id)
        return {one.call_id: json.loads(one.question) for one in asked}

    async def result(self, timeout_s: float | None = None) -> Any:
        """What the job returned, once it has; RunFailed when the run ends in any other way.

        TimeoutError when that takes longer than `timeout_s`; the run goes on.
        """
        if timeout_s is not None:
            check_seconds(timeout_s, field="timeout_s")
        try:
            async with asyncio.timeout(timeout_s):
                record = await self.wait_for_end()
        except TimeoutError:
            problem = f"run {self.id} has not ended within {timeout_s:g} s; it goes on"
            raise TimeoutError(problem) from None
        return result_or_raise(record)

    async def wait_for_end(self) -> RunRecord:
        """The run, once it is over, however it ended."""
        with self._watcher.open_waiter(self.id) as news:
            while True:  # Until the run ends; whoever does not want to wait sets a timeout.
                news.begin_read()
                record = await self.record()
                news.note_seen(record.run.run_seq)
                if record.run.status in TERMINAL:
                    return record
                await news.wait()

    async def events(self, *, after_seq: int = 0) -> AsyncIterator[Event]:
        """Its events in their order, as they happen, until the run is over."""
        with self._watcher.open_waiter(self.id) as news:
            while True:  # Until the run is over.
                news.begin_read()
                run = (await self.record()).run  # Before the events.
                news.note_seen(run.run_seq)
                while True:  # Until there are no more for now.
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
                await news.wait()


def _to_error(record: RunRecord) -> Any:
    """What went wrong, or why somebody cancelled it, if they said."""
    if record.error is not None:
        return json.loads(record.error)
    reason = "" if record.cancel is None else json.loads(record.cancel)["reason"]
    is_told = reason and record.run.status is RunStatus.CANCELED
    return {"code": "canceled", "message": reason} if is_told else None
