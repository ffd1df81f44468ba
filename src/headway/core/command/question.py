"""Questions to people: asked under a claim, answered once, and closed by whoever asked.

A question is a row until it is closed, so any instance knows what is asked. It is its claim's: who
executes the run again asks again, and what a person has answered meanwhile to the same question
stands.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headway.core.answer_schema import check_schema, misfit
from headway.core.command.command import Needs
from headway.core.document import Document, check_name, encode_document
from headway.core.duration import check_seconds
from headway.core.ids import SECOND, later
from headway.core.run.events import EventType
from headway.core.run.run import NO_TOKEN, Claim, Run
from headway.core.timeouts import PERMISSION_TIMEOUT_S
from headway.core.world import Question, World

CALL_ID_LENGTH_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class NotAsked:
    """No such question is open."""

    is_answered: bool
    """Somebody was faster."""
    open_call_ids: tuple[str, ...]
    """What is asked now."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """The answer is not what was asked for."""

    place: str
    problem: str


class Outcome(StrEnum):
    """Why a question was closed."""

    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"


def is_open(question: Question, run: Run) -> bool:
    """Whether whoever asked still waits for the answer."""
    is_asking = run.token != NO_TOKEN and question.generation == run.generation
    return is_asking and question.answer is None


def answer_question(
    world: World, run: Run, *, call_id: str, answer: Document, by: str
) -> NotAsked | Unfit | None:
    """Take the first answer to an open question; None: it is taken."""
    asked = world.questions[run.id]
    question = asked.get(call_id)
    if question is None or not is_open(question, run):
        is_answered = question is not None and question.answer is not None
        return NotAsked(is_answered, tuple(i for i, one in asked.items() if is_open(one, run)))
    if question.answer_schema is not None:
        fault = misfit(json.loads(question.answer_schema), json.loads(answer))
        if fault is not None:
            return Unfit(*fault)
    answered = question._replace(answer=answer, answered_by=by, answered_at=world.now)
    _put(world, answered)
    return None


@dataclass(frozen=True, slots=True)
class Asked:
    answer: Document | None
    """What a person said to the same question before, and whoever asked has not heard."""
    seq: int
    """An answer that came before this was to another question, though its name was the same."""


@dataclass(frozen=True, slots=True)
class AskQuestion:
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
        check_name(self.call_id, place="call_id", length_max=CALL_ID_LENGTH_MAX)
        check_seconds(self.timeout_s, place="timeout_s")
        if self.schema is not None:
            check_schema(json.loads(self.schema))

    def need(self, needs: Needs) -> None:
        needs.run(self.claim.run_id)
        needs.question_run_ids[self.claim.run_id] = None

    def decide(self, world: World) -> Asked | None:
        """None: the claim is void. Asked twice, it is asked once.

        Another question under the same name takes the place of the first: people answer what they
        see, and the job hears answers to what it asks.
        """
        run = world.held(self.claim)
        if run is None:
            return None
        known = world.questions[run.id].get(self.call_id)
        is_asked = known is not None and known.generation == run.generation
        if known is not None and is_asked and self._is_the_same(known):
            return Asked(known.answer, world.seq)
        earlier = self._earlier(world, run)
        answer_by = later(world.now, seconds=self.timeout_s)
        if run.run_by is not None:  # Waiting for a person is part of the time that it may take.
            answer_by = min(answer_by, max(run.run_by, world.now))
        question = Question(
            run.id,
            self.call_id,
            run.generation,
            self.question,
            world.now,
            answer_by,
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
        _put(world, question)
        timeout_s = min(self.timeout_s, (answer_by - world.now) / SECOND)
        world.emit(run, EventType.PERMISSION_REQUEST, self._told(timeout_s))
        return Asked(question.answer, world.seq)

    def _told(self, timeout_s: float) -> str:
        call_id = encode_document(self.call_id, place="call_id")
        schema = "null" if self.schema is None else self.schema
        return (
            f'{{"call_id":{call_id},"question":{self.question},"schema":{schema},'
            f'"timeout_s":{json.dumps(timeout_s)}}}'
        )

    def _earlier(self, world: World, run: Run) -> Question | None:
        """The same question, answered and never closed; what nobody will close is removed."""
        found = None
        for one in list(world.questions[run.id].values()):
            if one.generation == run.generation:
                continue
            if one.answer is None:
                _remove(world, one)
            elif found is None and self._is_the_same(one):
                found = one
                _remove(world, one)
            elif one.call_id == self.call_id:  # Another question, under the same name.
                _remove(world, one)
        return found

    def _is_the_same(self, other: Question) -> bool:
        return (other.question, other.answer_schema) == (self.question, self.schema)


@dataclass(frozen=True, slots=True)
class CloseQuestion:
    """Whoever asked goes on, with what a person said or, if nobody did, with `otherwise`."""

    claim: Claim
    call_id: str
    otherwise: Document
    outcome: Outcome = Outcome.TIMED_OUT
    """Why, if nobody did."""

    def need(self, needs: Needs) -> None:
        needs.run(self.claim.run_id)
        needs.question_run_ids[self.claim.run_id] = None

    def decide(self, world: World) -> Document | None:
        """The answer that stands; None: it is closed already, or the claim is void."""
        run = world.held(self.claim)
        question = None if run is None else world.questions[run.id].get(self.call_id)
        if run is None or question is None:
            return None
        answer = self.otherwise if question.answer is None else question.answer
        _remove(world, question)
        is_answered = question.answer is not None
        outcome = Outcome.ANSWERED if is_answered else self.outcome
        said = {"by": question.answered_by, "answered_at": question.answered_at}
        told = encode_document(
            {"call_id": self.call_id, "outcome": outcome.value, **said}, place="call_id"
        )
        world.emit(run, EventType.PERMISSION_RESULT, f'{told[:-1]},"answer":{answer}}}')
        return answer


def _put(world: World, question: Question) -> None:
    world.questions[question.run_id][question.call_id] = question
    world.changes.questions[question.run_id, question.call_id] = question


def _remove(world: World, question: Question) -> None:
    del world.questions[question.run_id][question.call_id]
    world.changes.questions[question.run_id, question.call_id] = None
