"""Questions outlive the execution that asked them: through a crash, a stop and a take-over."""

import json
from collections.abc import Awaitable, Callable

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.run.cancel import CancelResult, RequestCancel
from headway.core.command.run.inbox import ANSWER, NotActive, Posted, PostToInbox
from headway.core.command.run.interrupt import (
    CloseInterrupt,
    InterruptOpened,
    NoOpenInterrupt,
    OpenInterrupt,
    ReadInterrupts,
)
from headway.core.command.run.wait import Park, Retry, Wake
from headway.core.document import Document
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.events import EventType
from headway.core.run.explain import explain
from headway.core.run.run import Claim
from headway.testing import FakeClock, a_message, an_error, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claim_run,
    orphan_run,
    read_events,
    read_run,
    register_instance,
    start_run,
)

YES, NO = document(True), document(False)
QUESTION, OTHER = document({"tool": "delete", "count": 9}), document({"tool": "delete", "count": 1})

EndExecution = Callable[[SqlStore, Claim], Awaitable[None]]


async def crash(store: SqlStore, claim: Claim) -> None:
    """Declare the instance dead and take the run from it, as after SIGKILL."""
    await orphan_run(store, claim.run_id)


async def stop(store: SqlStore, claim: Claim) -> None:
    """Give the run up, as a graceful stop does."""
    assert await store.apply(Park(claim, wake_at=Instant(0)))


either_end = pytest.mark.parametrize("end_execution", [crash, stop])


def an_answer(run_id: RunId, call_id: str = "1.1", answer: object = True) -> PostToInbox:
    return a_message(run_id, answer, kind=ANSWER, call_id=call_id, by="eve")


async def ask(
    store: SqlStore,
    claim: Claim,
    call_id: str = "1.1",
    question: Document = QUESTION,
    *,
    timeout_s: float = 300,
) -> InterruptOpened:
    opened_interrupt = await store.apply(
        OpenInterrupt(claim, call_id, question, timeout_s=timeout_s)
    )
    assert opened_interrupt is not None
    return opened_interrupt


async def ask_first(store: SqlStore) -> Claim:
    claim = claim_of(await start_run(store))
    assert (await ask(store, claim)).answer is None
    return claim


async def claim_again(store: SqlStore) -> Claim:
    return claim_of(await claim_run(store, await register_instance(store)))


async def open_ids(store: SqlStore, run_id: RunId) -> list[str]:
    return [question.call_id for question in await store.runs.interrupts(run_id)]


async def read_history(store: SqlStore, run_id: RunId) -> list[tuple[str, str, str | None]]:
    """Return the history of the questions of a run, as its events show it."""
    kinds = (EventType.PERMISSION_REQUEST, EventType.PERMISSION_RESULT)
    rows = [event for event in await read_events(store, run_id) if event.type in kinds]
    payloads = [(event.type, json.loads(event.payload)) for event in rows]
    return [(kind, payload["call_id"], payload.get("outcome")) for kind, payload in payloads]


@pytest.mark.proves("R4.9", "R6.5", "I25")
@either_end
async def test_question_stays_open_between_two_executions(
    store: SqlStore, another_store: SqlStore, end_execution: EndExecution
) -> None:
    claim = await ask_first(store)
    await end_execution(store, claim)
    assert await open_ids(another_store, claim.run_id) == ["1.1"]
    (listed,) = [interrupt async for interrupt in another_store.board.interrupts(limit=9)]
    assert (listed.interrupt.run_id, listed.interrupt.call_id) == (claim.run_id, "1.1")
    assert (await another_store.board.metrics()).interrupt_count == 1
    again = await claim_again(store)
    (remaining,) = await store.apply(ReadInterrupts(again))
    assert (remaining.call_id, remaining.question) == ("1.1", QUESTION)
    assert await open_ids(store, claim.run_id) == ["1.1"]
    assert (await ask(store, again)).answer is None
    assert await open_ids(store, claim.run_id) == ["1.1"]
    assert await read_history(store, claim.run_id) == [("permission_request", "1.1", None)]


@pytest.mark.proves("R4.9", "R6.5", "I3")
@either_end
async def test_answer_between_two_executions_is_accepted_and_received_once(
    store: SqlStore, end_execution: EndExecution
) -> None:
    claim = await ask_first(store)
    await end_execution(store, claim)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    second = an_answer(claim.run_id, answer=False)
    assert await store.apply(second) == NoOpenInterrupt(is_answered=True, open_call_ids=())
    again = await claim_again(store)
    assert (await ask(store, again)).answer == YES
    assert await store.apply(CloseInterrupt(again, "1.1", NO)) == YES
    assert (await ask(store, again, "2.1")).answer is None
    assert await read_history(store, claim.run_id) == [
        ("permission_request", "1.1", None),
        ("permission_result", "1.1", "answered"),
        ("permission_request", "2.1", None),
    ]


@pytest.mark.proves("R4.9", "R6.5")
@either_end
async def test_next_execution_waits_for_the_remaining_time(
    store: SqlStore, clock: FakeClock, end_execution: EndExecution
) -> None:
    claim = claim_of(await start_run(store))
    asked_at = clock()
    assert (await ask(store, claim, timeout_s=60)).timeout_s == 60
    clock.advance(20)
    await end_execution(store, claim)
    again = await claim_again(store)
    assert (await ask(store, again, timeout_s=60)).timeout_s == 40
    (question,) = await store.runs.interrupts(claim.run_id)
    assert question.answer_deadline_at == add_seconds(asked_at, seconds=60)
    clock.advance(50)
    await end_execution(store, again)
    assert (await ask(store, await claim_again(store), timeout_s=60)).timeout_s == 0


@pytest.mark.proves("R4.14")
async def test_time_without_an_executor_does_not_shorten_the_time_to_answer(
    store: SqlStore, clock: FakeClock
) -> None:
    """The run's remaining time limits the question, and a stop does not use up that time."""
    claim = claim_of(await start_run(store, timeout_s=100))
    await ask(store, claim, timeout_s=300)
    await stop(store, claim)
    clock.advance(50)
    assert (await ask(store, await claim_again(store), timeout_s=300)).timeout_s == 250
    (question,) = await store.runs.interrupts(claim.run_id)
    assert question.answer_deadline_at == add_seconds(clock(), seconds=100)


@pytest.mark.proves("R4.15")
@either_end
async def test_answer_to_a_question_that_is_not_asked_again_is_refused_as_stale(
    store: SqlStore, end_execution: EndExecution
) -> None:
    claim = await ask_first(store)
    await end_execution(store, claim)
    again = await claim_again(store)
    await ask(store, again, "2.1", OTHER)
    stale = await store.apply(an_answer(claim.run_id))
    assert stale == NoOpenInterrupt(is_answered=False, open_call_ids=("2.1",))
    assert await read_history(store, claim.run_id) == [
        ("permission_request", "1.1", None),
        ("permission_result", "1.1", "withdrawn"),
        ("permission_request", "2.1", None),
    ]
    assert (await ask(store, again)).answer is None  # The question is asked after all, as before.
    assert await open_ids(store, claim.run_id) == ["1.1", "2.1"]
    assert (await read_history(store, claim.run_id))[-1] == ("permission_request", "1.1", None)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)


@pytest.mark.proves("R4.15", "I25", "I26")
async def test_failed_attempt_withdraws_its_questions_and_answers_to_them_are_stale(
    store: SqlStore,
) -> None:
    claim = await ask_first(store)
    await ask(store, claim, "1.2", OTHER)
    assert await store.apply(Retry(claim, an_error(), 60))
    assert await open_ids(store, claim.run_id) == []
    assert (await store.board.metrics()).interrupt_count == 0
    stale = await store.apply(an_answer(claim.run_id))
    assert stale == NoOpenInterrupt(is_answered=False, open_call_ids=())
    assert (await read_run(store, claim.run_id)).is_parked  # Its retry delay was not cut short.
    assert await read_history(store, claim.run_id) == [
        ("permission_request", "1.1", None),
        ("permission_request", "1.2", None),
        ("permission_result", "1.1", "withdrawn"),
        ("permission_result", "1.2", "withdrawn"),
    ]


@pytest.mark.proves("R4.9", "I25")
async def test_question_of_the_next_attempt_has_the_full_timeout_again(
    store: SqlStore, clock: FakeClock
) -> None:
    claim = await ask_first(store)
    assert await store.apply(Retry(claim, an_error(), 600))
    clock.advance(601)
    assert await store.apply(Wake(claim.run_id))
    again = await claim_again(store)
    (remaining,) = await store.apply(ReadInterrupts(again))
    assert (remaining.call_id, remaining.question) == ("1.1", QUESTION)
    assert (await ask(store, again)).timeout_s == 300
    assert await ask(store, again) == await ask(store, again)
    (question,) = await store.runs.interrupts(claim.run_id)
    assert (question.call_id, question.answer_deadline_at) == (
        "1.1",
        add_seconds(clock(), seconds=300),
    )
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    assert await store.apply(CloseInterrupt(again, "1.1", NO)) == YES


@pytest.mark.proves("R4.9", "I25", "I26")
async def test_answer_given_before_an_attempt_failed_is_kept_for_the_next_attempt(
    store: SqlStore,
) -> None:
    claim = await ask_first(store)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    assert await store.apply(Retry(claim, an_error(), 0.0))
    again = await claim_again(store)
    assert (await ask(store, again)).answer == YES
    assert await store.apply(CloseInterrupt(again, "1.1", NO)) == YES


@pytest.mark.proves("R4.15", "I3")
async def test_answer_to_a_question_does_not_apply_to_another_with_the_same_call_id(
    store: SqlStore,
) -> None:
    claim = await ask_first(store)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    await crash(store, claim)
    again = await claim_again(store)
    assert (await ask(store, again, "1.1", OTHER)).answer is None
    assert await store.apply(CloseInterrupt(again, "1.1", NO)) == NO


@pytest.mark.proves("R6.5")
async def test_several_open_questions_keep_their_own_call_ids_after_a_takeover(
    store: SqlStore,
) -> None:
    claim = await ask_first(store)
    await ask(store, claim, "1.2", OTHER)
    await stop(store, claim)
    assert isinstance(await store.apply(an_answer(claim.run_id, "1.2")), Posted)
    again = await claim_again(store)
    assert (await ask(store, again, "1.2", OTHER)).answer == YES
    assert await open_ids(store, claim.run_id) == ["1.1"]
    assert (await ask(store, again)).answer is None


@pytest.mark.proves("I6")
async def test_asking_a_taken_over_question_twice_changes_nothing(store: SqlStore) -> None:
    claim = await ask_first(store)
    await stop(store, claim)
    again = await claim_again(store)
    await ask(store, again)
    before = await read_all(store)
    await ask(store, again)
    assert await read_all(store) == before


@pytest.mark.proves("I11")
async def test_question_of_a_run_canceled_between_executions_is_closed(
    store: SqlStore, clock: FakeClock
) -> None:
    claim = await ask_first(store)
    await stop(store, claim)
    assert await store.apply(RequestCancel(run_id=claim.run_id)) is CancelResult.CANCELED
    assert await open_ids(store, claim.run_id) == []
    assert await store.apply(an_answer(claim.run_id)) == NotActive()
    assert await store.apply(PruneRuns((claim.run_id,), ended_before=Instant(clock() + 1))) == 1
    assert (await read_all(store))["interrupts"] == []


@pytest.mark.proves("R6.5")
@either_end
async def test_explain_names_the_open_question_of_a_run_without_a_process(
    store: SqlStore, clock: FakeClock, end_execution: EndExecution
) -> None:
    claim = await ask_first(store)
    await end_execution(store, claim)
    situation = await store.runs.situation(claim.run_id)
    assert situation is not None
    sentence = explain(situation, clock()).sentence
    assert "'1.1' is open, and can be answered now" in sentence
