"""Questions to people: open until answered or closed, and visible to every instance."""

import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.run.end_run import Expire
from headway.core.command.run.inbox import (
    ANSWER,
    UNREAD_COUNT_MAX,
    ConsumeInbox,
    InboxFull,
    NotActive,
    Posted,
    PostToInbox,
)
from headway.core.command.run.interrupt import (
    AnswerMismatch,
    CloseInterrupt,
    NoOpenInterrupt,
    OpenInterrupt,
    ReadInterrupts,
)
from headway.core.command.run.settle import Complete
from headway.core.document import Document
from headway.core.errors import InvalidInput
from headway.core.event_payloads import InterruptOutcome
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.events import EventType
from headway.core.run.run import Claim
from headway.testing import FakeClock, a_message, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_run,
    orphan_run,
    read_events,
    register_instance,
    start_run,
)

YES, NO, QUESTION = document(True), document(False), document({"tool": "delete"})


def an_answer(run_id: RunId, call_id: str = "1.1", answer: object = True) -> PostToInbox:
    return a_message(run_id, answer, kind=ANSWER, call_id=call_id, by="eve")


async def answer_known(store: SqlStore, asks: OpenInterrupt) -> Document | None:
    """Open an interrupt, and return the unread answer that it already has."""
    opened_interrupt = await store.apply(asks)
    assert opened_interrupt is not None
    return opened_interrupt.answer


async def start_asking(store: SqlStore, call_id: str = "1.1") -> Claim:
    claim = claim_of(await start_run(store))
    assert await answer_known(store, OpenInterrupt(claim, call_id, QUESTION)) is None
    return claim


@pytest.mark.proves("R4.15")
async def test_first_answer_is_final_and_a_second_is_refused(
    store: SqlStore, another_store: SqlStore
) -> None:
    claim = await start_asking(store)
    (interrupt,) = await another_store.runs.interrupts(claim.run_id)
    assert (interrupt.call_id, interrupt.question) == ("1.1", QUESTION)
    assert isinstance(await another_store.apply(an_answer(claim.run_id)), Posted)
    assert await store.runs.interrupts(claim.run_id) == []
    before = await read_all(store)
    second = an_answer(claim.run_id, answer=False)
    assert await store.apply(second) == NoOpenInterrupt(is_answered=True, open_call_ids=())
    assert await read_all(store) == before
    (item,) = await store.apply(ConsumeInbox(claim, ANSWER)) or ()
    assert (item.call_id, item.payload, item.by) == ("1.1", "true", "eve")
    assert await store.apply(CloseInterrupt(claim, "1.1", NO)) == YES
    assert await store.apply(second) == NoOpenInterrupt(is_answered=False, open_call_ids=())


@pytest.mark.proves("R4.15")
async def test_one_of_two_answers_in_one_batch_is_accepted(store: SqlStore) -> None:
    claim = await start_asking(store)
    first, second = await apply_in_one_batch(
        store, an_answer(claim.run_id), an_answer(claim.run_id, answer=False)
    )
    assert isinstance(first, Posted)
    assert second == NoOpenInterrupt(is_answered=True, open_call_ids=())


@pytest.mark.proves("R4.15")
async def test_question_that_is_not_open_cannot_be_answered(store: SqlStore) -> None:
    claim = await start_asking(store)
    refused = NoOpenInterrupt(is_answered=False, open_call_ids=("1.1",))
    assert await store.apply(an_answer(claim.run_id, "1.2")) == refused
    assert await store.apply(CloseInterrupt(claim, "1.1", NO)) == NO
    assert await store.apply(an_answer(claim.run_id)) == NoOpenInterrupt(False, ())
    await store.apply(Complete(claim))
    assert await store.apply(an_answer(claim.run_id)) == NotActive()
    with pytest.raises(InvalidInput, match="call_id must name the question"):
        a_message(claim.run_id, kind=ANSWER)


@pytest.mark.proves("I3")
async def test_answer_at_the_last_moment_is_final(store: SqlStore) -> None:
    claim = await start_asking(store)
    _, standing = await apply_in_one_batch(
        store, an_answer(claim.run_id), CloseInterrupt(claim, "1.1", document(None))
    )
    assert standing == YES
    assert await store.apply(CloseInterrupt(claim, "1.1", NO)) is None
    results = [
        e for e in await read_events(store, claim.run_id) if e.type == EventType.PERMISSION_RESULT
    ]
    (result,) = (json.loads(event.payload) for event in results)
    assert (result["call_id"], result["answer"]) == ("1.1", True)


@pytest.mark.proves("I2")
async def test_stale_claim_cannot_open_interrupts(store: SqlStore) -> None:
    claim = await start_asking(store)
    await orphan_run(store, claim.run_id)
    await claim_run(store, await register_instance(store))
    before = await read_all(store)
    assert await store.apply(OpenInterrupt(claim, "1.2", QUESTION)) is None
    assert await store.apply(ReadInterrupts(claim)) == ()
    assert await read_all(store) == before


@pytest.mark.proves("I3")
async def test_answer_given_before_a_crash_applies_only_to_the_same_question(
    store: SqlStore,
) -> None:
    claim = await start_asking(store)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    await orphan_run(store, claim.run_id)
    again = claim_of(await claim_run(store, await register_instance(store)))
    other = document("something else")
    assert await answer_known(store, OpenInterrupt(again, "2.1", other)) is None
    assert await answer_known(store, OpenInterrupt(again, "2.2", QUESTION)) == YES
    assert await answer_known(store, OpenInterrupt(again, "2.2", QUESTION)) == YES
    assert await store.apply(CloseInterrupt(again, "2.2", NO)) == YES
    assert await answer_known(store, OpenInterrupt(again, "2.3", QUESTION)) is None


@pytest.mark.proves("R4.15")
async def test_answer_is_accepted_though_the_inbox_is_full_of_messages(
    store: SqlStore,
) -> None:
    claim = await start_asking(store)
    messages = [a_message(claim.run_id, n) for n in range(UNREAD_COUNT_MAX + 1)]
    *_, last = await apply_in_one_batch(store, *messages)
    assert isinstance(last, InboxFull)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    (item,) = await store.apply(ConsumeInbox(claim, ANSWER)) or ()
    assert item.payload == YES


@pytest.mark.proves("I6")
async def test_opening_the_same_interrupt_twice_changes_nothing(store: SqlStore) -> None:
    claim = await start_asking(store)
    before = await read_all(store)
    assert await answer_known(store, OpenInterrupt(claim, "1.1", QUESTION)) is None
    assert await read_all(store) == before


@pytest.mark.proves("I19")
async def test_questions_are_removed_with_their_run(store: SqlStore, clock: FakeClock) -> None:
    claim = await start_asking(store)
    await store.apply(Complete(claim))
    assert await store.apply(PruneRuns((claim.run_id,), ended_before=Instant(clock() + 1))) == 1
    assert (await read_all(store))["interrupts"] == []


@pytest.mark.proves("I3")
async def test_consumed_but_unreceived_answer_can_be_read_again(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    for number in range(2):
        await store.apply(a_message(claim.run_id, number))
    (first, second) = await store.apply(ConsumeInbox(claim)) or ()
    assert await store.apply(ConsumeInbox(claim)) == ()
    assert await store.apply(ConsumeInbox(claim, replay_after_seq=0)) == (first, second)
    await store.apply(a_message(claim.run_id, 2))
    again = await store.apply(ConsumeInbox(claim, replay_after_seq=first.seq)) or ()
    assert [item.payload for item in again] == ["1", "2"]
    assert await store.apply(ConsumeInbox(claim, replay_after_seq=again[-1].seq)) == ()


@pytest.mark.proves("I3")
async def test_answer_consumed_in_the_same_batch_can_be_read_again(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    await store.apply(a_message(claim.run_id))
    first, again = await apply_in_one_batch(
        store, ConsumeInbox(claim), ConsumeInbox(claim, replay_after_seq=0)
    )
    assert len(first) == 1
    assert again == first


@pytest.mark.proves("I2")
async def test_answer_consumed_by_an_earlier_claim_is_not_read_again(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    await store.apply(a_message(claim.run_id))
    await store.apply(ConsumeInbox(claim))
    await orphan_run(store, claim.run_id)
    again = claim_of(await claim_run(store, await register_instance(store)))
    assert await store.apply(ConsumeInbox(claim, replay_after_seq=0)) is None
    assert await store.apply(ConsumeInbox(again, replay_after_seq=0)) == ()


SCHEMA = document({"type": "object", "properties": {"count": {"type": "integer"}}})


@pytest.mark.proves("R4.9")
async def test_answer_that_violates_the_schema_is_refused_and_the_question_stays_open(
    store: SqlStore,
) -> None:
    claim = claim_of(await start_run(store))
    await store.apply(OpenInterrupt(claim, "1.1", QUESTION, SCHEMA))
    (interrupt,) = await store.runs.interrupts(claim.run_id)
    assert interrupt.answer_schema == SCHEMA
    before = await read_all(store)
    wrong = await store.apply(an_answer(claim.run_id, answer={"count": "many"}))
    assert wrong == AnswerMismatch("answer.count", "must be of type integer")
    assert await read_all(store) == before
    assert isinstance(await store.apply(an_answer(claim.run_id, answer={"count": 9})), Posted)
    with pytest.raises(InvalidInput, match=r"schema.pattern is not a supported keyword"):
        OpenInterrupt(claim, "1.2", QUESTION, document({"pattern": ".*"}))


@pytest.mark.proves("R4.9")
async def test_question_shows_its_deadline(store: SqlStore, clock: FakeClock) -> None:
    claim = claim_of(await start_run(store))
    await store.apply(OpenInterrupt(claim, "1.1", QUESTION, timeout_s=7, default=NO))
    (interrupt,) = await store.runs.interrupts(claim.run_id)
    assert (interrupt.answer_deadline_at, interrupt.default_answer) == (
        add_seconds(clock(), seconds=7),
        NO,
    )
    (*_, event) = await read_events(store, claim.run_id)
    assert json.loads(event.payload) == {
        "call_id": "1.1", "question": {"tool": "delete"}, "schema": None, "timeout_s": 7,
    }  # fmt: skip


@pytest.mark.proves("R4.14")
async def test_deadline_of_a_question_is_not_later_than_the_deadline_of_its_run(
    store: SqlStore, clock: FakeClock
) -> None:
    claim = claim_of(await start_run(store, timeout_s=10))
    clock.advance(4)
    await store.apply(OpenInterrupt(claim, "1.1", QUESTION, timeout_s=7))
    await store.apply(OpenInterrupt(claim, "1.2", QUESTION, timeout_s=5))
    interrupts = await store.runs.interrupts(claim.run_id)
    expected = [add_seconds(clock(), seconds=6), add_seconds(clock(), seconds=5)]
    assert sorted(interrupt.answer_deadline_at for interrupt in interrupts) == sorted(expected)
    *_, first, second = await read_events(store, claim.run_id)
    assert [json.loads(event.payload)["timeout_s"] for event in (first, second)] == [6, 5]
    clock.advance(6)
    assert await store.apply(Expire(claim.run_id))  # Asking did not extend the deadline of the run.
    assert isinstance(await store.apply(an_answer(claim.run_id)), NotActive)


@pytest.mark.proves("R4.9")
async def test_actor_and_time_of_an_answer_are_recorded(store: SqlStore, clock: FakeClock) -> None:
    claim = await start_asking(store)
    await store.apply(an_answer(claim.run_id))
    answered_at = clock()
    clock.advance(5)
    await store.apply(CloseInterrupt(claim, "1.1", NO))
    await store.apply(OpenInterrupt(claim, "1.2", QUESTION))
    await store.apply(CloseInterrupt(claim, "1.2", NO, InterruptOutcome.CANCELLED))
    results = [
        e for e in await read_events(store, claim.run_id) if e.type == EventType.PERMISSION_RESULT
    ]
    assert [json.loads(event.payload) for event in results] == [
        {"call_id": "1.1", "outcome": "answered", "by": "eve", "answered_at": answered_at,
         "answer": True},
        {"call_id": "1.2", "outcome": "cancelled", "by": None, "answered_at": None,
         "answer": False},
    ]  # fmt: skip


@pytest.mark.proves("R4.15")
async def test_question_named_by_the_job_is_asked_again_after_a_takeover(
    store: SqlStore,
) -> None:
    claim = await start_asking(store, "tool-7")
    await orphan_run(store, claim.run_id)
    again = claim_of(await claim_run(store, await register_instance(store)))
    other = document("something else")
    assert await answer_known(store, OpenInterrupt(again, "tool-7", other)) is None
    (interrupt,) = await store.runs.interrupts(claim.run_id)
    assert (interrupt.call_id, interrupt.question) == ("tool-7", other)
    assert isinstance(await store.apply(an_answer(claim.run_id, "tool-7")), Posted)
    await orphan_run(store, claim.run_id)
    third = claim_of(await claim_run(store, await register_instance(store)))
    assert await answer_known(store, OpenInterrupt(third, "tool-7", other)) == YES


@pytest.mark.proves("R4.15")
async def test_another_question_with_the_same_call_id_replaces_the_first_question(
    store: SqlStore,
) -> None:
    claim = await start_asking(store, "tool-7")
    assert isinstance(await store.apply(an_answer(claim.run_id, "tool-7")), Posted)
    other = document("something else")
    assert await answer_known(store, OpenInterrupt(claim, "tool-7", other)) is None
    (interrupt,) = await store.runs.interrupts(claim.run_id)
    assert (interrupt.call_id, interrupt.question) == ("tool-7", other)
    *_, event = await read_events(store, claim.run_id)
    assert json.loads(event.payload)["question"] == "something else"
    assert await answer_known(store, OpenInterrupt(claim, "tool-7", other, SCHEMA)) is None
    (interrupt,) = await store.runs.interrupts(claim.run_id)
    assert interrupt.answer_schema == SCHEMA
    assert await store.apply(CloseInterrupt(claim, "tool-7", NO)) == NO


@pytest.mark.proves("R4.15")
async def test_sequence_numbers_show_which_question_an_answer_belongs_to(
    store: SqlStore,
) -> None:
    claim = await start_asking(store, "tool-7")
    before = await store.apply(an_answer(claim.run_id, "tool-7"))
    other = OpenInterrupt(claim, "tool-7", document("something else"))
    opened_interrupt = await store.apply(other)
    after = await store.apply(an_answer(claim.run_id, "tool-7"))
    assert isinstance(before, Posted)
    assert isinstance(after, Posted)
    assert opened_interrupt is not None
    assert before.seq < opened_interrupt.seq < after.seq
