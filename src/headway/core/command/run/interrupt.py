"""Questions to people: a job asks, the first answer counts, and the job closes the question.

A question is a row until it is closed. It belongs to its run, not to a single execution. When an
execution ends before its question is answered (a crash, a restart), the row stays: people still see
the question and can answer it. The next execution that asks the same question under the same
`call_id` takes the row over, with its deadline and with an answer given in the meantime. If that
execution asks a different question, it withdraws the unanswered questions of earlier executions:
their rows are hidden, and answers to them are refused, until the same question is asked again. A
failed attempt withdraws its own questions, because the next attempt may never ask them. A question
that is asked again after it was withdrawn keeps its `call_id`, and its whole timeout starts again.
"""

import json
from dataclasses import dataclass
from typing import ClassVar, Final

from headway.core.answer_schema import check_schema, find_mismatch
from headway.core.batch_state import BatchState, Interrupt
from headway.core.command.protocol import HolderCommand, RowsNeeded
from headway.core.document import NULL, Document, check_name
from headway.core.duration import check_seconds
from headway.core.event_payloads import InterruptAsked, InterruptClosed, InterruptOutcome
from headway.core.ids import SECOND_US, Instant, add_seconds
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.timeouts import PERMISSION_TIMEOUT_S

CALL_ID_LENGTH_MAX: Final = 64
WITHDRAWN_GENERATION: Final = 0
"""The `generation` of a withdrawn question. Executions count from 1."""


@dataclass(frozen=True, slots=True)
class NoOpenInterrupt:
    """The run has no open question with this `call_id`."""

    is_answered: bool
    """True if another answer was accepted before."""
    open_call_ids: tuple[str, ...]
    """The `call_id`s of the questions that are open now."""


@dataclass(frozen=True, slots=True)
class AnswerMismatch:
    """The answer does not match the schema of the question."""

    field: str
    problem: str


def is_open(interrupt: Interrupt, run: Run) -> bool:
    """Return whether people may answer the question, even while no process executes the run."""
    is_asked = interrupt.generation != WITHDRAWN_GENERATION and interrupt.answer is None
    return is_asked and run.status is RunStatus.RUNNING


def answer_interrupt(
    batch: BatchState, run: Run, *, call_id: str, answer: Document, by: str
) -> NoOpenInterrupt | AnswerMismatch | None:
    """Store the first answer to an open question.

    Return None if the answer was stored. Otherwise return the reason for the refusal.
    """
    interrupts = batch.interrupts[run.id]
    interrupt = interrupts.get(call_id)
    if interrupt is None or not is_open(interrupt, run):
        is_answered = interrupt is not None and interrupt.answer is not None
        open_call_ids = tuple(other.call_id for other in interrupts.values() if is_open(other, run))
        return NoOpenInterrupt(is_answered, open_call_ids)
    if interrupt.answer_schema is not None:
        mismatch = find_mismatch(json.loads(interrupt.answer_schema), json.loads(answer))
        if mismatch is not None:
            return AnswerMismatch(*mismatch)
    _save(batch, interrupt._replace(answer=answer, answered_by=by, answered_at=batch.now))
    return None


@dataclass(frozen=True, slots=True)
class InterruptOpened:
    answer: Document | None
    """An earlier answer to the same question that no job has received yet."""
    seq: int
    """The last `seq` of the stream when the question was asked.

    An answer with a lower `seq` belongs to another question under the same `call_id`.
    """
    timeout_s: float
    """How long to wait for an answer. The timeout counts from when the question was asked."""


@dataclass(frozen=True, slots=True)
class ReadInterrupts(HolderCommand[tuple[Interrupt, ...]]):
    """Read the run's questions that are not closed, in the order in which they were asked.

    An execution uses this to find the questions that earlier executions left.
    """

    may_free_capacity: ClassVar[bool] = False
    stale_answer: ClassVar[tuple[Interrupt, ...]] = ()

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.interrupt_run_ids[self.claim.run_id] = None

    def decide_held(self, batch: BatchState, run: Run) -> tuple[Interrupt, ...]:
        return tuple(batch.interrupts[run.id].values())


@dataclass(frozen=True, slots=True)
class OpenInterrupt(HolderCommand[InterruptOpened | None]):
    """Ask a question. Asking it again has no effect. The result is None if the claim is stale.

    A different question under the same `call_id` replaces the earlier question: people answer the
    question that they see, and the job receives answers to the question that it asks.
    """

    call_id: str
    question: Document
    schema: Document | None = None
    """A JSON Schema. An answer that does not match it is refused."""
    timeout_s: float = PERMISSION_TIMEOUT_S
    """How long the job waits, unless the run's deadline comes first. Shown to people."""
    default: Document | None = None
    """The answer with which the job continues if no person answers in time. Shown to people."""

    may_free_capacity: ClassVar[bool] = False
    stale_answer: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_name(self.call_id, field="call_id", length_max=CALL_ID_LENGTH_MAX)
        check_seconds(self.timeout_s, field="timeout_s")
        if self.schema is not None:
            check_schema(json.loads(self.schema))

    def document_length(self) -> int:
        return len(self.question)

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.interrupt_run_ids[self.claim.run_id] = None

    def decide_held(self, batch: BatchState, run: Run) -> InterruptOpened:
        stored = batch.interrupts[run.id].get(self.call_id)
        if stored is not None and self.is_same_as(stored):
            return self._take_over(batch, run, stored)
        earlier = self._take_answered(batch, run)
        run = self._withdraw_others(batch, run)
        interrupt = Interrupt(
            run.id,
            self.call_id,
            run.generation,
            self.question,
            batch.now,
            self._answer_deadline_at(run, asked_at=batch.now, now=batch.now),
            self.schema,
            self.default,
            None,
            None,
            None,
        )
        if earlier is not None:
            interrupt = interrupt._replace(
                answer=earlier.answer,
                answered_by=earlier.answered_by,
                answered_at=earlier.answered_at,
            )
        _save(batch, interrupt)
        self._emit_request(batch, run, interrupt)
        return InterruptOpened(interrupt.answer, batch.seq, self.timeout_s)

    def is_same_as(self, other: Interrupt) -> bool:
        """Return whether an answer to `other` is also an answer to this question."""
        return (other.question, other.answer_schema) == (self.question, self.schema)

    def _take_over(self, batch: BatchState, run: Run, stored: Interrupt) -> InterruptOpened:
        if stored.generation == WITHDRAWN_GENERATION:  # People could not answer it meanwhile.
            stored = stored._replace(asked_at=batch.now)
        if stored.generation != run.generation:
            answer_deadline_at = self._answer_deadline_at(
                run, asked_at=stored.asked_at, now=batch.now
            )
            interrupt = stored._replace(
                generation=run.generation,
                answer_deadline_at=answer_deadline_at,
                default_answer=self.default,
            )
            _save(batch, interrupt)
            if stored.generation == WITHDRAWN_GENERATION:
                self._emit_request(batch, run, interrupt)
        left_us = max(0, add_seconds(stored.asked_at, seconds=self.timeout_s) - batch.now)
        return InterruptOpened(stored.answer, batch.seq, left_us / SECOND_US)

    def _answer_deadline_at(self, run: Run, *, asked_at: Instant, now: Instant) -> Instant:
        answer_deadline_at = add_seconds(asked_at, seconds=self.timeout_s)
        if run.run_deadline_at is not None:  # The wait counts towards the run's limit.
            answer_deadline_at = min(answer_deadline_at, max(run.run_deadline_at, now))
        return answer_deadline_at

    def _emit_request(self, batch: BatchState, run: Run, interrupt: Interrupt) -> None:
        left_s = max(0, interrupt.answer_deadline_at - batch.now) / SECOND_US
        timeout_s = min(self.timeout_s, left_s)
        batch.emit(run, InterruptAsked(self.call_id, self.question, self.schema, timeout_s))

    def _take_answered(self, batch: BatchState, run: Run) -> Interrupt | None:
        """Remove and return the same question, stored under another `call_id`.

        Return None unless an earlier execution asked it and its answer is unread.
        """
        for other in batch.interrupts[run.id].values():
            is_earlier = other.generation != run.generation and other.answer is not None
            if is_earlier and self.is_same_as(other):
                _remove(batch, other)
                return other
        return None

    def _withdraw_others(self, batch: BatchState, run: Run) -> Run:
        """Withdraw the unanswered questions of earlier executions, and return the run.

        This execution asks a different question. Answered questions stay until a job asks them
        again.
        """
        others = batch.interrupts[run.id].values()
        earlier = [other for other in others if other.generation != run.generation]
        return _withdraw(batch, run, earlier)


@dataclass(frozen=True, slots=True)
class CloseInterrupt(HolderCommand[Document | None]):
    """Close a question. The job continues with the stored answer, or with `fallback_answer`.

    The result is None if the question is already closed or the claim is stale.
    """

    call_id: str
    fallback_answer: Document
    outcome: InterruptOutcome = InterruptOutcome.TIMED_OUT
    """Why the question is closed if it has no answer."""

    may_free_capacity: ClassVar[bool] = False
    stale_answer: ClassVar[None] = None

    def document_length(self) -> int:
        return len(self.fallback_answer)

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)
        rows.interrupt_run_ids[self.claim.run_id] = None

    def decide_held(self, batch: BatchState, run: Run) -> Document | None:
        interrupt = batch.interrupts[run.id].get(self.call_id)
        if interrupt is None:
            return None
        is_answered = interrupt.answer is not None
        answer = self.fallback_answer if interrupt.answer is None else interrupt.answer
        _remove(batch, interrupt)
        outcome = InterruptOutcome.ANSWERED if is_answered else self.outcome
        _emit_result(batch, run, interrupt, outcome, answer)
        return answer


def withdraw_interrupts(batch: BatchState, run: Run) -> Run:
    """Withdraw all unanswered questions of the run, and return the changed run."""
    return _withdraw(batch, run, list(batch.interrupts[run.id].values()))


def _withdraw(batch: BatchState, run: Run, interrupts: list[Interrupt]) -> Run:
    for interrupt in interrupts:
        if interrupt.generation != WITHDRAWN_GENERATION and interrupt.answer is None:
            _save(batch, interrupt._replace(generation=WITHDRAWN_GENERATION))
            run = _emit_result(batch, run, interrupt, InterruptOutcome.WITHDRAWN, NULL)
    return run


def _emit_result(
    batch: BatchState, run: Run, interrupt: Interrupt, outcome: InterruptOutcome, answer: Document
) -> Run:
    by, answered_at = interrupt.answered_by, interrupt.answered_at
    payload = InterruptClosed(interrupt.call_id, outcome, by, answered_at, answer)
    return batch.emit(run, payload)


def _save(batch: BatchState, interrupt: Interrupt) -> None:
    batch.interrupts[interrupt.run_id][interrupt.call_id] = interrupt
    batch.changes.interrupts[interrupt.run_id, interrupt.call_id] = interrupt


def _remove(batch: BatchState, interrupt: Interrupt) -> None:
    del batch.interrupts[interrupt.run_id][interrupt.call_id]
    batch.changes.interrupts[interrupt.run_id, interrupt.call_id] = None
