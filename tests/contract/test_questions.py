"""Questions to people: open until answered or closed, and known to every instance."""

import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.prune import PruneRuns
from headway.core.command.run.expire import Expire
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
    InterruptOutcome,
    NoOpenInterrupt,
    OpenInterrupt,
    ReadInterrupts,
)
from headway.core.command.run.settle import Complete
from headway.core.document import Document
from headway.core.errors import InvalidInput
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.events import EventType
from headway.core.run.run import Claim
from headway.testing import FakeClock, a_message, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import claimed_one, events, instance, orphaned, running, together

YES, NO, QUESTION = document(True), document(False), document({"tool": "delete"})


def an_answer(run_id: RunId, call_id: str = "1.1", said: object = True) -> PostToInbox:
    return a_message(run_id, said, kind=ANSWER, call_id=call_id, by="eve")


async def answer_known(store: SqlStore, asks: OpenInterrupt) -> Document | None:
    """Ask; what a person has said to it before, unheard."""
    asked = await store.apply(asks)
    assert asked is not None
    return asked.answer


async def asking(store: SqlStore, call_id: str = "1.1") -> Claim:
    claim = claim_of(await running(store))
    assert await answer_known(store, OpenInterrupt(claim, call_id, QUESTION)) is None
    return claim


@pytest.mark.proves("R4.15")
async def test_the_first_answer_stands_and_a_second_is_refused(
    store: SqlStore, another_store: SqlStore
) -> None:
    claim = await asking(store)
    (asked,) = await another_store.runs.interrupts(claim.run_id)
    assert (asked.call_id, asked.question) == ("1.1", QUESTION)
    assert isinstance(await another_store.apply(an_answer(claim.run_id)), Posted)
    assert await store.runs.interrupts(claim.run_id) == []
    before = await read_all(store)
    second = an_answer(claim.run_id, said=False)
    assert await store.apply(second) == NoOpenInterrupt(is_answered=True, open_call_ids=())
    assert await read_all(store) == before
    (item,) = await store.apply(ConsumeInbox(claim, ANSWER)) or ()
    assert (item.call_id, item.payload, item.by) == ("1.1", "true", "eve")
    assert await store.apply(CloseInterrupt(claim, "1.1", NO)) == YES
    assert await store.apply(second) == NoOpenInterrupt(is_answered=False, open_call_ids=())


@pytest.mark.proves("R4.15")
async def test_of_two_answers_in_one_batch_one_is_taken(store: SqlStore) -> None:
    claim = await asking(store)
    first, second = await together(
        store, an_answer(claim.run_id), an_answer(claim.run_id, said=False)
    )
    assert isinstance(first, Posted)
    assert second == NoOpenInterrupt(is_answered=True, open_call_ids=())


@pytest.mark.proves("R4.15")
async def test_what_nobody_asks_cannot_be_answered(store: SqlStore) -> None:
    claim = await asking(store)
    refused = NoOpenInterrupt(is_answered=False, open_call_ids=("1.1",))
    assert await store.apply(an_answer(claim.run_id, "1.2")) == refused
    assert await store.apply(CloseInterrupt(claim, "1.1", NO)) == NO
    assert await store.apply(an_answer(claim.run_id)) == NoOpenInterrupt(False, ())
    await store.apply(Complete(claim))
    assert await store.apply(an_answer(claim.run_id)) == NotActive()
    with pytest.raises(InvalidInput, match="call_id: must name the question"):
        a_message(claim.run_id, kind=ANSWER)


@pytest.mark.proves("I3")
async def test_an_answer_at_the_last_moment_is_the_one_that_stands(store: SqlStore) -> None:
    claim = await asking(store)
    _, standing = await together(
        store, an_answer(claim.run_id), CloseInterrupt(claim, "1.1", document(None))
    )
    assert standing == YES
    assert await store.apply(CloseInterrupt(claim, "1.1", NO)) is None
    told = [e for e in await events(store, claim.run_id) if e.type == EventType.PERMISSION_RESULT]
    (result,) = (json.loads(one.payload) for one in told)
    assert (result["call_id"], result["answer"]) == ("1.1", True)


@pytest.mark.proves("I2")
async def test_a_claim_that_was_taken_over_asks_nothing_more(store: SqlStore) -> None:
    claim = await asking(store)
    await orphaned(store, claim.run_id)
    await claimed_one(store, await instance(store))
    before = await read_all(store)
    assert await store.apply(OpenInterrupt(claim, "1.2", QUESTION)) is None
    assert await store.apply(ReadInterrupts(claim)) == ()
    assert await read_all(store) == before


@pytest.mark.proves("I3")
async def test_an_answer_that_the_crash_overtook_stands_for_the_same_question(
    store: SqlStore,
) -> None:
    claim = await asking(store)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    await orphaned(store, claim.run_id)
    again = claim_of(await claimed_one(store, await instance(store)))
    other = document("something else")
    assert await answer_known(store, OpenInterrupt(again, "2.1", other)) is None
    assert await answer_known(store, OpenInterrupt(again, "2.2", QUESTION)) == YES
    assert await answer_known(store, OpenInterrupt(again, "2.2", QUESTION)) == YES
    assert await store.apply(CloseInterrupt(again, "2.2", NO)) == YES
    assert await answer_known(store, OpenInterrupt(again, "2.3", QUESTION)) is None


@pytest.mark.proves("R4.15")
async def test_an_answer_is_taken_though_the_inbox_is_full_of_messages(
    store: SqlStore,
) -> None:
    claim = await asking(store)
    messages = [a_message(claim.run_id, n) for n in range(UNREAD_COUNT_MAX + 1)]
    *_, last = await together(store, *messages)
    assert isinstance(last, InboxFull)
    assert isinstance(await store.apply(an_answer(claim.run_id)), Posted)
    (item,) = await store.apply(ConsumeInbox(claim, ANSWER)) or ()
    assert item.payload == YES


@pytest.mark.proves("I6")
async def test_to_ask_twice_is_to_ask_once(store: SqlStore) -> None:
    claim = await asking(store)
    before = await read_all(store)
    assert await answer_known(store, OpenInterrupt(claim, "1.1", QUESTION)) is None
    assert await read_all(store) == before


@pytest.mark.proves("I19")
async def test_questions_go_with_their_run(store: SqlStore, clock: FakeClock) -> None:
    claim = await asking(store)
    await store.apply(Complete(claim))
    assert await store.apply(PruneRuns((claim.run_id,), ended_before=Instant(clock() + 1))) == 1
    assert (await read_all(store))["questions"] == []


@pytest.mark.proves("I3")
async def test_what_was_consumed_and_not_heard_can_be_read_again(store: SqlStore) -> None:
    claim = claim_of(await running(store))
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
async def test_what_the_same_batch_consumed_can_be_read_again(store: SqlStore) -> None:
    claim = claim_of(await running(store))
    await store.apply(a_message(claim.run_id))
    first, again = await together(
        store, ConsumeInbox(claim), ConsumeInbox(claim, replay_after_seq=0)
    )
    assert len(first) == 1
    assert again == first


@pytest.mark.proves("I2")
async def test_what_an_earlier_claim_consumed_is_not_read_again(store: SqlStore) -> None:
    claim = claim_of(await running(store))
    await store.apply(a_message(claim.run_id))
    await store.apply(ConsumeInbox(claim))
    await orphaned(store, claim.run_id)
    again = claim_of(await claimed_one(store, await instance(store)))
    assert await store.apply(ConsumeInbox(claim, replay_after_seq=0)) is None
    assert await store.apply(ConsumeInbox(again, replay_after_seq=0)) == ()


SCHEMA = document({"type": "object", "properties": {"count": {"type": "integer"}}})


@pytest.mark.proves("R4.9")
async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    store: SqlStore,
) -> None:
    claim = claim_of(await running(store))
    await store.apply(OpenInterrupt(claim, "1.1", QUESTION, SCHEMA))
    (asked,) = await store.runs.interrupts(claim.run_id)
    assert asked.answer_schema == SCHEMA
    before = await read_all(store)
    wrong = await store.apply(an_answer(claim.run_id, said={"count": "many"}))
    assert wrong == AnswerMismatch("answer.count", "must be of type integer")
    assert await read_all(store) == before
    assert isinstance(await store.apply(an_answer(claim.run_id, said={"count": 9})), Posted)
    with pytest.raises(InvalidInput, match=r"schema.pattern: is not understood"):
        OpenInterrupt(claim, "1.2", QUESTION, document({"pattern": ".*"}))


@pytest.mark.proves("R4.9")
async def test_people_know_how_long_they_have(store: SqlStore, clock: FakeClock) -> None:
    claim = claim_of(await running(store))
    await store.apply(OpenInterrupt(claim, "1.1", QUESTION, timeout_s=7, default=NO))
    (asked,) = await store.runs.interrupts(claim.run_id)
    assert (asked.answer_deadline_at, asked.default_answer) == (add_seconds(clock(), seconds=7), NO)
    (*_, told) = await events(store, claim.run_id)
    assert json.loads(told.payload) == {
        "call_id": "1.1", "question": {"tool": "delete"}, "schema": None, "timeout_s": 7,
    }  # fmt: skip


@pytest.mark.proves("R4.14")
async def test_a_person_has_no_longer_than_the_run_has(store: SqlStore, clock: FakeClock) -> None:
    claim = claim_of(await running(store, timeout_s=10))
    clock.advance(4)
    await store.apply(OpenInterrupt(claim, "1.1", QUESTION, timeout_s=7))
    await store.apply(OpenInterrupt(claim, "1.2", QUESTION, timeout_s=5))
    asked = await store.runs.interrupts(claim.run_id)
    wanted = [add_seconds(clock(), seconds=6), add_seconds(clock(), seconds=5)]
    assert sorted(one.answer_deadline_at for one in asked) == sorted(wanted)
    *_, first, second = await events(store, claim.run_id)
    assert [json.loads(told.payload)["timeout_s"] for told in (first, second)] == [6, 5]
    clock.advance(6)
    assert await store.apply(Expire(claim.run_id))  # Asking has not put off its end.
    assert isinstance(await store.apply(an_answer(claim.run_id)), NotActive)


@pytest.mark.proves("R4.9")
async def test_who_answered_and_when_is_on_the_record(store: SqlStore, clock: FakeClock) -> None:
    claim = await asking(store)
    await store.apply(an_answer(claim.run_id))
    answered_at = clock()
    clock.advance(5)
    await store.apply(CloseInterrupt(claim, "1.1", NO))
    await store.apply(OpenInterrupt(claim, "1.2", QUESTION))
    await store.apply(CloseInterrupt(claim, "1.2", NO, InterruptOutcome.CANCELLED))
    told = [e for e in await events(store, claim.run_id) if e.type == EventType.PERMISSION_RESULT]
    assert [json.loads(one.payload) for one in told] == [
        {"call_id": "1.1", "outcome": "answered", "by": "eve", "answered_at": answered_at,
         "answer": True},
        {"call_id": "1.2", "outcome": "cancelled", "by": None, "answered_at": None,
         "answer": False},
    ]  # fmt: skip


@pytest.mark.proves("R4.15")
async def test_a_name_of_the_jobs_own_is_asked_again_by_who_takes_over(
    store: SqlStore,
) -> None:
    claim = await asking(store, "tool-7")
    await orphaned(store, claim.run_id)
    again = claim_of(await claimed_one(store, await instance(store)))
    other = document("something else")
    assert await answer_known(store, OpenInterrupt(again, "tool-7", other)) is None
    (asked,) = await store.runs.interrupts(claim.run_id)
    assert (asked.call_id, asked.question) == ("tool-7", other)
    assert isinstance(await store.apply(an_answer(claim.run_id, "tool-7")), Posted)
    await orphaned(store, claim.run_id)
    third = claim_of(await claimed_one(store, await instance(store)))
    assert await answer_known(store, OpenInterrupt(third, "tool-7", other)) == YES


@pytest.mark.proves("R4.15")
async def test_another_question_under_the_same_name_takes_the_place_of_the_first(
    store: SqlStore,
) -> None:
    claim = await asking(store, "tool-7")
    assert isinstance(await store.apply(an_answer(claim.run_id, "tool-7")), Posted)
    other = document("something else")
    assert await answer_known(store, OpenInterrupt(claim, "tool-7", other)) is None
    (asked,) = await store.runs.interrupts(claim.run_id)
    assert (asked.call_id, asked.question) == ("tool-7", other)
    *_, told = await events(store, claim.run_id)
    assert json.loads(told.payload)["question"] == "something else"
    assert await answer_known(store, OpenInterrupt(claim, "tool-7", other, SCHEMA)) is None
    (asked,) = await store.runs.interrupts(claim.run_id)
    assert asked.answer_schema == SCHEMA
    assert await store.apply(CloseInterrupt(claim, "tool-7", NO)) == NO


@pytest.mark.proves("R4.15")
async def test_what_came_before_a_question_was_asked_is_no_answer_to_it(
    store: SqlStore,
) -> None:
    claim = await asking(store, "tool-7")
    before = await store.apply(an_answer(claim.run_id, "tool-7"))
    other = OpenInterrupt(claim, "tool-7", document("something else"))
    asked = await store.apply(other)
    after = await store.apply(an_answer(claim.run_id, "tool-7"))
    assert isinstance(before, Posted)
    assert isinstance(after, Posted)
    assert asked is not None
    assert before.seq < asked.seq < after.seq
