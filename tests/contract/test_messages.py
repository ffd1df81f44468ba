"""Accepted messages are read by the job, passed on, or reported when the run ends."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import UNREAD_SHOWN_COUNT_MAX, UNREAD_SHOWN_LENGTH_MAX
from headway.core.command.admin.lane_limits import ClearRuns
from headway.core.command.flow.publish import FlowStart, StartFlow
from headway.core.command.run.cancel import ForceCancel, RequestCancel
from headway.core.command.run.child import CancelChild
from headway.core.command.run.end_run import Expire
from headway.core.command.run.inbox import ANSWER, ConsumeInbox, MessageNotAccepted, Posted
from headway.core.command.run.interrupt import CloseInterrupt, OpenInterrupt
from headway.core.command.run.report import SetWindow
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.command.run.submit import Accepted, Submit
from headway.core.command.run.wait import Park, Retry
from headway.core.document import EMPTY_OBJECT, NULL
from headway.core.flow.engine.records import FLOW_JOB
from headway.core.ids import FLOW_LANE, MAIN_LANE, Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.events import EventType
from headway.core.run.run import Claim
from headway.core.run.transitions import TERMINAL
from headway.core.run.window import Delivery, Refusal, Window
from headway.testing import FakeClock, a_message, a_submit, an_error, claim_of, document
from tests.contract.scenes import (
    TIMEOUT_S,
    apply_in_one_batch,
    claim_run,
    orphan_run,
    read_events,
    read_run,
    register_instance,
    start_run,
    submit_run,
)

REPLACE: Final = OnConflict.REPLACE


async def payloads(store: SqlStore, run_id: RunId, kind: EventType) -> list[Any]:
    return [json.loads(e.payload) for e in await read_events(store, run_id) if e.type == kind]


async def reports(store: SqlStore, run_id: RunId) -> list[Any]:
    return await payloads(store, run_id, EventType.MESSAGES_UNREAD)


# Each way in which a run ends, for a run with an unread message.


async def _complete(store: SqlStore, _: FakeClock, claim: Claim) -> None:
    await store.apply(Complete(claim, NULL))


async def _fail(store: SqlStore, _: FakeClock, claim: Claim) -> None:
    await store.apply(Fail(claim, an_error()))


async def _confirm_cancel(store: SqlStore, _: FakeClock, claim: Claim) -> None:
    await store.apply(RequestCancel(run_id=claim.run_id))
    await store.apply(ConfirmCancel(claim))


async def _force_cancel(store: SqlStore, clock: FakeClock, claim: Claim) -> None:
    await store.apply(RequestCancel(run_id=claim.run_id, grace_s=1))
    clock.advance(2)
    await store.apply(ForceCancel(claim.run_id))


async def _time_out(store: SqlStore, clock: FakeClock, claim: Claim) -> None:
    clock.advance(TIMEOUT_S)
    await store.apply(Expire(claim.run_id))


async def _poison(store: SqlStore, _: FakeClock, claim: Claim) -> None:
    await orphan_run(store, claim.run_id, times=3)


async def _die_while_cancelling(store: SqlStore, _: FakeClock, claim: Claim) -> None:
    await store.apply(RequestCancel(run_id=claim.run_id))
    await orphan_run(store, claim.run_id)


async def _cancel_while_parked(store: SqlStore, _: FakeClock, claim: Claim) -> None:
    await store.apply(Park(claim))
    await store.apply(RequestCancel(run_id=claim.run_id))


ENDINGS: Final[dict[str, Callable[[SqlStore, FakeClock, Claim], Awaitable[None]]]] = {
    "complete": _complete,
    "fail": _fail,
    "confirm cancel": _confirm_cancel,
    "force cancel": _force_cancel,
    "time out": _time_out,
    "poison": _poison,
    "die while cancelling": _die_while_cancelling,
    "cancel while parked": _cancel_while_parked,
}


@pytest.mark.proves("R4.11", "I26")
@pytest.mark.parametrize("ending", ENDINGS)
async def test_unread_messages_are_reported_whatever_ends_the_run(
    store: SqlStore, clock: FakeClock, ending: str
) -> None:
    run = await start_run(store, timeout_s=TIMEOUT_S)
    claim = claim_of(run)
    posted = await store.apply(a_message(run.run_id, {"say": "left"}, by="bob"))
    assert isinstance(posted, Posted)
    await ENDINGS[ending](store, clock, claim)
    assert (await read_run(store, run.run_id)).status in TERMINAL
    message = {"seq": posted.seq, "by": "bob", "message": {"say": "left"}}
    assert await reports(store, run.run_id) == [{"count": 1, "messages": [message]}]
    *_, report, end = await read_events(store, run.run_id)
    assert (report.type, end.type) == (EventType.MESSAGES_UNREAD, EventType.STATE_CHANGED)


@pytest.mark.proves("R4.11", "I26")
@pytest.mark.parametrize("ending", ["cancel", "clear", "queue timeout", "parent ended"])
async def test_unread_messages_of_a_run_that_never_started_are_reported(
    store: SqlStore, clock: FakeClock, ending: str
) -> None:
    parent_id = RunId("pruned")
    run_id = await submit_run(store, queue_timeout_s=TIMEOUT_S, parent_id=parent_id)
    await store.apply(a_message(run_id, "early"))
    match ending:
        case "cancel":
            await store.apply(RequestCancel(run_id=run_id))
        case "clear":
            assert await store.apply(ClearRuns((run_id,), MAIN_LANE)) == 1
        case "queue timeout":
            clock.advance(TIMEOUT_S)
            assert await store.apply(Expire(run_id))
        case _:
            await store.apply(CancelChild(run_id=run_id, parent_id=parent_id))
    assert (await read_run(store, run_id)).status in TERMINAL
    (report,) = await reports(store, run_id)
    assert (report["count"], report["messages"][0]["message"]) == (1, "early")


@pytest.mark.proves("R4.11", "I26")
async def test_no_unread_messages_are_reported_if_all_were_read(store: SqlStore) -> None:
    run = await start_run(store)
    await store.apply(a_message(run.run_id, 1))
    await store.apply(a_message(run.run_id, 2, kind="signal"))
    await store.apply(ConsumeInbox(claim_of(run)))
    await store.apply(Complete(claim_of(run), NULL))
    assert await reports(store, run.run_id) == []


@pytest.mark.proves("R4.11", "I26")
async def test_message_in_the_batch_that_ends_its_run_is_reported_unread_or_refused(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    before, _, after = await apply_in_one_batch(
        store,
        a_message(run.run_id, "before"),
        Complete(claim_of(run), NULL),
        a_message(run.run_id, "after"),
    )
    assert (isinstance(before, Posted), isinstance(after, Posted)) == (True, False)
    (report,) = await reports(store, run.run_id)
    assert [message["message"] for message in report["messages"]] == ["before"]


@pytest.mark.proves("R4.11")
async def test_report_of_unread_messages_is_bounded(store: SqlStore) -> None:
    many, large = await start_run(store, "ann"), await start_run(store, "bob")
    posts = [a_message(many.run_id, n) for n in range(UNREAD_SHOWN_COUNT_MAX + 5)]
    await apply_in_one_batch(store, *posts)
    await store.apply(a_message(large.run_id, "small"))
    await store.apply(a_message(large.run_id, "x" * UNREAD_SHOWN_LENGTH_MAX))
    for run, count, shown_count in ((many, len(posts), UNREAD_SHOWN_COUNT_MAX), (large, 2, 1)):
        await store.apply(Complete(claim_of(run), NULL))
        (report,) = await reports(store, run.run_id)
        assert (report["count"], len(report["messages"])) == (count, shown_count)


async def ask_and_answer(store: SqlStore, claim: Claim, *answers: object) -> None:
    for number, answer in enumerate(answers):
        call_id = f"1.{number:02}"
        await store.apply(OpenInterrupt(claim, call_id, document("may I?")))
        item = a_message(claim.run_id, answer, kind=ANSWER, call_id=call_id, by="eve")
        assert isinstance(await store.apply(item), Posted)


async def read_unreceived_answers(store: SqlStore, run_id: RunId) -> list[Any]:
    return await payloads(store, run_id, EventType.ANSWERS_UNREAD)


@pytest.mark.proves("I25", "I26")
@pytest.mark.parametrize("is_taken", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_answers_that_no_job_received_are_reported_whatever_ends_the_run(
    store: SqlStore, clock: FakeClock, ending: str, *, is_taken: bool
) -> None:
    claim = claim_of(await start_run(store, timeout_s=TIMEOUT_S))
    await ask_and_answer(store, claim, {"approved": True})
    if is_taken:  # From the inbox, by an execution that does not act on it.
        assert await store.apply(ConsumeInbox(claim, ANSWER))
    await ENDINGS[ending](store, clock, claim)
    assert (await read_run(store, claim.run_id)).status in TERMINAL
    answer = {"call_id": "1.00", "by": "eve", "answer": {"approved": True}}
    assert await read_unreceived_answers(store, claim.run_id) == [{"count": 1, "answers": [answer]}]
    *_, report, end = await read_events(store, claim.run_id)
    assert (report.type, end.type) == (EventType.ANSWERS_UNREAD, EventType.STATE_CHANGED)


@pytest.mark.proves("I26")
async def test_received_answers_and_unanswered_questions_are_not_reported(
    store: SqlStore,
) -> None:
    claim = claim_of(await start_run(store))
    await ask_and_answer(store, claim, True)
    assert await store.apply(CloseInterrupt(claim, "1.00", NULL)) == "true"
    await store.apply(OpenInterrupt(claim, "2", document("and now?")))
    await store.apply(Complete(claim, NULL))
    assert await read_unreceived_answers(store, claim.run_id) == []


@pytest.mark.proves("I26")
async def test_report_of_unreceived_answers_is_limited(store: SqlStore) -> None:
    many, large = await start_run(store, "ann"), await start_run(store, "bob")
    await ask_and_answer(store, claim_of(many), *range(UNREAD_SHOWN_COUNT_MAX + 5))
    await ask_and_answer(store, claim_of(large), "small", "x" * UNREAD_SHOWN_LENGTH_MAX)
    for run, count, shown_count in ((many, UNREAD_SHOWN_COUNT_MAX + 5, 20), (large, 2, 1)):
        await store.apply(Complete(claim_of(run), NULL))
        (report,) = await read_unreceived_answers(store, run.run_id)
        assert (report["count"], len(report["answers"])) == (count, shown_count)


@pytest.mark.proves("R3.11", "R4.11", "I26")
async def test_unread_messages_of_replaced_runs_go_to_the_new_run(
    store: SqlStore,
) -> None:
    first = await start_run(store)
    behind_id = await submit_run(store, on_conflict=OnConflict.ENQUEUE)
    await store.apply(a_message(first.run_id, "one", by="bob"))
    await store.apply(a_message(behind_id, "two"))
    await store.apply(a_message(first.run_id, "three"))
    await store.apply(a_message(first.run_id, "not a message", kind="signal"))
    new_id = await submit_run(store, on_conflict=REPLACE)
    posted = await payloads(store, new_id, EventType.MESSAGE_POSTED)
    assert [payload["carried_from"] for payload in posted] == [
        first.run_id,
        first.run_id,
        behind_id,
    ]
    carried = await payloads(store, first.run_id, EventType.MESSAGES_CARRIED)
    assert carried == [{"count": 2, "to": new_id}]
    await store.apply(ConfirmCancel(claim_of(first)))
    new = await claim_run(store, await register_instance(store))
    assert (new.run_id, new.unread_count) == (new_id, 3)
    items = await store.apply(ConsumeInbox(claim_of(new))) or ()
    assert [(item.payload, item.by) for item in items] == [
        ('"one"', "bob"),
        ('"three"', ""),
        ('"two"', ""),
    ]
    assert await reports(store, first.run_id) == await reports(store, behind_id) == []
    assert (await read_run(store, first.run_id)).unread_count == 1


@pytest.mark.proves("R3.11", "I26")
async def test_replacement_carries_over_earlier_messages_of_its_batch_and_refuses_later_ones(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    replacing = a_submit("ann", on_conflict=REPLACE)
    before, accepted, after = await apply_in_one_batch(
        store, a_message(run.run_id, "before"), replacing, a_message(run.run_id, "after")
    )
    assert isinstance(accepted, Accepted)
    assert (isinstance(before, Posted), isinstance(after, Posted)) == (True, False)
    (item,) = await store.runs.inbox(replacing.run_id)
    assert (item.payload, item.consumed_generation) == ('"before"', None)


@pytest.mark.proves("R3.11", "I26")
async def test_flow_task_takes_over_no_messages_and_the_replaced_run_reports_them(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    await store.apply(a_message(run.run_id, "hello"))
    submission = Submit(
        run_id=RunId("task-1"), key=Key("ann"), job=FLOW_JOB, lane=FLOW_LANE, on_conflict=REPLACE
    )
    start = FlowStart(flow="orders", version=1, node="a", cursor=EMPTY_OBJECT)
    assert isinstance(await store.apply(StartFlow(submission=submission, start=start)), Accepted)
    await store.apply(ConfirmCancel(claim_of(run)))
    assert [report["count"] for report in await reports(store, run.run_id)] == [1]
    refused = await store.apply(a_message(RunId("task-1")))
    assert refused == MessageNotAccepted(Refusal.FLOW_TASK)


@pytest.mark.proves("R4.8", "R4.11", "I26")
@pytest.mark.parametrize("way", ["parked", "retried", "orphaned"])
async def test_message_that_must_be_delivered_now_is_refused_between_two_executions(
    store: SqlStore, way: str
) -> None:
    claim = claim_of(await start_run(store))
    await store.apply(SetWindow(claim, Window.STREAMING))
    match way:
        case "parked":
            await store.apply(Park(claim))
        case "retried":
            await store.apply(Retry(claim, an_error(), 60))
        case _:
            await orphan_run(store, claim.run_id)
    message = a_message(claim.run_id, delivery=Delivery.NOW)
    assert await store.apply(message) == MessageNotAccepted(Refusal.NOT_STREAMING, can_wait=True)


@pytest.mark.proves("R4.11", "I26")
async def test_reading_messages_opens_the_window_unless_the_job_has_set_one(
    store: SqlStore,
) -> None:
    claim = claim_of(await start_run(store))
    consume = ConsumeInbox(claim, open_window=True)
    assert await store.apply(consume) == ()
    assert (await read_run(store, claim.run_id)).window == Window.STREAMING
    for window in (Window.COMPACTING, Window.CLOSED):
        await store.apply(SetWindow(claim, window))
        await store.apply(consume)
        assert (await read_run(store, claim.run_id)).window == window
    await store.apply(SetWindow(claim, Window.NONE))
    await store.apply(RequestCancel(run_id=claim.run_id))
    await store.apply(consume)
    assert (await read_run(store, claim.run_id)).window == Window.NONE


@pytest.mark.proves("R4.11")
async def test_queued_run_accepts_only_messages_that_can_wait_for_its_start(
    store: SqlStore,
) -> None:
    run_id = await submit_run(store)
    refused = await store.apply(a_message(run_id, delivery=Delivery.NOW))
    assert refused == MessageNotAccepted(Refusal.NOT_STARTED, can_wait=True)
    assert isinstance(await store.apply(a_message(run_id)), Posted)
