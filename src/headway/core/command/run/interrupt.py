"""Questions to people: a claim asks, the first answer counts, and the asking job closes.

A question is a row until it is closed. It belongs to its run, not to one execution of it. When an
execution ends before its question is answered (a crash, a restart), the row stays: people still see
the question and can answer it. The next execution that asks the same question under the same
`call_id` takes the row over, with its deadline and with an answer given in the meantime. If that
execution asks a different question, it withdraws the unanswered questions of earlier executions:
their rows are hidden, and answers to them are refused, until the same question is asked again. A
failed attempt withdraws its own questions, because the next attempt may never ask them. A question
that is asked again after it was withdrawn keeps its name, and has its whole time again.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headway.core.answer_schema import check_schema, find_mismatch
from headway.core.batch_state import BatchState, Interrupt
from headway.core.command.protocol import RowsNeeded
from headway.core.document import NULL, Document, check_name, encode_document
from headway.core.duration import check_seconds
from headway.core.ids import SECOND_US, Instant, add_seconds
from headway.core.run.events import EventType
from headway.core.run.run import Claim, Run
from headway.core.run.status import RunStatus
from headway.core.timeouts import PERMISSION_TIMEOUT_S

CALL_ID_LENGTH_MAX: Final = 64
WITHDRAWN_GENERATION: Final = 0
"""The `generation` of a withdrawn question. Executions count from 1."""


@dataclass(frozen=True, slots=True)
class NoOpenInterrupt:
    """No such question is open."""

    is_answered: bool
    """Somebody was faster."""
    open_call_ids: tuple[str, ...]
    """What is asked now."""


@dataclass(frozen=True, slots=True)
class AnswerMismatch:
    """The answer is not what was asked for."""

    field: str
    problem: str


class InterruptOutcome(StrEnum):
    """Why a question was closed."""

    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    """The process stopped, and the job asked with `on_shutdown="deny"`."""
    WITHDRAWN = "withdrawn"
    """The attempt that asked has failed, or a later execution asked a different question."""


def is_open(question: Interrupt, run: Run) -> bool:
    """Return whether people may answer, even while no process executes the run."""
    is_asked = question.generation != WITHDRAWN_GENERATION and question.answer is None
    return is_asked and run.status is RunStatus.RUNNING


def answer_interrupt(
    world: BatchState, run: Run, *, call_id: str, answer: Document, by: str
) -> NoOpenInterrupt | AnswerMismatch | None:
    """Take the first answer to an open question; None: it is taken."""
    asked = world.interrupts[run.id]
    question = asked.get(call_id)
    if question is None or not is_open(question, run):
        is_answered = question is not None and question.answer is not None
        return NoOpenInterrupt(
            is_answered, tuple(i for i, one in asked.items() if is_open(one, run))
        )
    if question.answer_schema is not None:
        fault = find_mismatch(json.loads(question.answer_schema), json.loads(answer))
        if fault is not None:
            return AnswerMismatch(*fault)
    answered = question._replace(answer=answer, answered_by=by, answered_at=world.now)
    _save(world, answered)
    return None


@dataclass(frozen=True, slots=True)
class InterruptOpened:
    answer: Document | None
    """An earlier answer to the same question that no job has received yet."""
    seq: int
    """An answer that came before this was to another question, though its name was the same."""
    timeout_s: float
    """How long to wait for an answer: the time left since the question was opened."""


@dataclass(frozen=True, slots=True)
class ReadInterrupts:
    """Read the questions that earlier executions of the run have left behind."""

    claim: Claim

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.interrupt_run_ids[self.claim.run_id] = None

    def decide(self, world: BatchState) -> tuple[Interrupt, ...]:
        """Return the questions in the order of asking, or none if the claim is stale."""
        run = world.held_run(self.claim)
        return () if run is None else tuple(world.interrupts[run.id].values())


@dataclass(frozen=True, slots=True)
class OpenInterrupt:
    claim: Claim
    call_id: str
    question: Document
    schema: Document | None = None
    """A JSON Schema; an answer that does not fit is refused."""
    timeout_s: float = PERMISSION_TIMEOUT_S
    """How long whoever asks will wait, if the run has that long: for people to know."""
    default: Document | None = None
    """With what whoever asks goes on when nobody answers in time: for people to know."""

    def __post_init__(self) -> None:
        check_name(self.call_id, field="call_id", length_max=CALL_ID_LENGTH_MAX)
        check_seconds(self.timeout_s, field="timeout_s")
        if self.schema is not None:
            check_schema(json.loads(self.schema))

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.interrupt_run_ids[self.claim.run_id] = None

    def decide(self, world: BatchState) -> InterruptOpened | None:
        """Ask the question; asking it again has no effect. Return None if the claim is stale.

        Another question under the same `call_id` replaces the first: people answer the question
        that they see, and the job receives answers to the question that it asks.
        """
        run = world.held_run(self.claim)
        if run is None:
            return None
        known = world.interrupts[run.id].get(self.call_id)
        if known is not None and self.is_same_as(known):
            return self._take_over(world, run, known)
        earlier = self._take_answered(world, run)
        run = self._withdraw_others(world, run)
        question = Interrupt(
            run.id,
            self.call_id,
            run.generation,
            self.question,
            world.now,
            self._answer_deadline_at(run, asked_at=world.now, now=world.now),
            self.schema,
            self.default,
            None,
            None,
            None,
        )
        if earlier is not None:
            question = question._replace(
                answer=earlier.answer,
                answered_by=earlier.answered_by,
                answered_at=earlier.answered_at,
            )
        _save(world, question)
        self._emit_request(world, run, question)
        return InterruptOpened(question.answer, world.seq, self.timeout_s)

    def is_same_as(self, other: Interrupt) -> bool:
        """Return whether an answer to `other` is also an answer to this question."""
        return (other.question, other.answer_schema) == (self.question, self.schema)

    def _take_over(self, world: BatchState, run: Run, known: Interrupt) -> InterruptOpened:
        if known.generation == WITHDRAWN_GENERATION:  # It could not be answered in the meantime.
            known = known._replace(asked_at=world.now)
        if known.generation != run.generation:
            answer_deadline_at = self._answer_deadline_at(
                run, asked_at=known.asked_at, now=world.now
            )
            question = known._replace(
                generation=run.generation,
                answer_deadline_at=answer_deadline_at,
                default_answer=self.default,
            )
            _save(world, question)
            if known.generation == WITHDRAWN_GENERATION:
                self._emit_request(world, run, question)
        left_us = max(0, add_seconds(known.asked_at, seconds=self.timeout_s) - world.now)
        return InterruptOpened(known.answer, world.seq, left_us / SECOND_US)

    def _answer_deadline_at(self, run: Run, *, asked_at: Instant, now: Instant) -> Instant:
        answer_deadline_at = add_seconds(asked_at, seconds=self.timeout_s)
        if run.run_deadline_at is not None:  # The wait counts towards its time limit.
            answer_deadline_at = min(answer_deadline_at, max(run.run_deadline_at, now))
        return answer_deadline_at

    def _emit_request(self, world: BatchState, run: Run, question: Interrupt) -> None:
        call_id = encode_document(self.call_id, field="call_id")
        schema = "null" if self.schema is None else self.schema
        left_s = max(0, question.answer_deadline_at - world.now) / SECOND_US
        payload = (
            f'{{"call_id":{call_id},"question":{self.question},"schema":{schema},'
            f'"timeout_s":{json.dumps(min(self.timeout_s, left_s))}}}'
        )
        world.emit(run, EventType.PERMISSION_REQUEST, payload)

    def _take_answered(self, world: BatchState, run: Run) -> Interrupt | None:
        """Remove and return the same question under another name whose answer no job received."""
        for other in world.interrupts[run.id].values():
            is_earlier = other.generation != run.generation and other.answer is not None
            if is_earlier and self.is_same_as(other):
                _remove(world, other)
                return other
        return None

    def _withdraw_others(self, world: BatchState, run: Run) -> Run:
        """Withdraw the questions of earlier executions: this one asks a different question.

        Answered questions stay until a job asks them again.
        """
        others = world.interrupts[run.id].values()
        return _withdraw(world, run, [one for one in others if one.generation != run.generation])


@dataclass(frozen=True, slots=True)
class CloseInterrupt:
    """Whoever asked goes on, with what a person said or, if nobody did, with `otherwise`."""

    claim: Claim
    call_id: str
    fallback_answer: Document
    outcome: InterruptOutcome = InterruptOutcome.TIMED_OUT
    """Why, if nobody did."""

    def need(self, needs: RowsNeeded) -> None:
        needs.add_run(self.claim.run_id)
        needs.interrupt_run_ids[self.claim.run_id] = None

    def decide(self, world: BatchState) -> Document | None:
        """The answer that stands; None: it is closed already, or the claim is void."""
        run = world.held_run(self.claim)
        question = None if run is None else world.interrupts[run.id].get(self.call_id)
        if run is None or question is None:
            return None
        is_answered = question.answer is not None
        answer = self.fallback_answer if question.answer is None else question.answer
        _remove(world, question)
        outcome = InterruptOutcome.ANSWERED if is_answered else self.outcome
        _emit_result(world, run, question, outcome, answer)
        return answer


def withdraw_interrupts(world: BatchState, run: Run) -> Run:
    """Withdraw all unanswered questions of the run."""
    return _withdraw(world, run, list(world.interrupts[run.id].values()))


def _withdraw(world: BatchState, run: Run, questions: list[Interrupt]) -> Run:
    for question in questions:
        if question.generation != WITHDRAWN_GENERATION and question.answer is None:
            _save(world, question._replace(generation=WITHDRAWN_GENERATION))
            run = _emit_result(world, run, question, InterruptOutcome.WITHDRAWN, NULL)
    return run


def _emit_result(
    world: BatchState, run: Run, question: Interrupt, outcome: InterruptOutcome, answer: Document
) -> Run:
    result = {
        "call_id": question.call_id,
        "outcome": outcome.value,
        "by": question.answered_by,
        "answered_at": question.answered_at,
    }
    text = encode_document(result, field="call_id")
    return world.emit(run, EventType.PERMISSION_RESULT, f'{text[:-1]},"answer":{answer}}}')


def _save(world: BatchState, question: Interrupt) -> None:
    world.interrupts[question.run_id][question.call_id] = question
    world.changes.interrupts[question.run_id, question.call_id] = question


def _remove(world: BatchState, question: Interrupt) -> None:
    del world.interrupts[question.run_id][question.call_id]
    world.changes.interrupts[question.run_id, question.call_id] = None
