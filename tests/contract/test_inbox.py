"""The inbox of a run: kept before it is acknowledged, read in order, once, by the claim alone."""

import asyncio
import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import InboxItem
from headway.core.command.run.inbox import (
    UNREAD_COUNT_MAX,
    ConsumeInbox,
    InboxFull,
    NotActive,
    Posted,
    UnknownRun,
)
from headway.core.ids import RunId
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.testing import FakeClock, a_message, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed_one,
    events,
    given,
    instance,
    orphaned,
    running,
    state,
    submitted,
    together,
)


@pytest.mark.proves("I3")
async def test_a_message_is_kept_with_its_event(store: SqlStore, clock: FakeClock) -> None:
    one = await running(store)
    posting = a_message(one.run_id, {"say": "left"}, kind="signal", call_id="c1", by="bob")
    posted = await store.apply(posting)
    assert isinstance(posted, Posted)
    (item,) = await store.runs.inbox(one.run_id)
    expected = ("signal", "c1", '{"say":"left"}', "bob", clock(), None)
    assert item == InboxItem(one.run_id, posted.seq, *expected)
    (*_, event) = await events(store, one.run_id)
    assert (event.seq, event.type) == (posted.seq, EventType.MESSAGE_POSTED)
    assert json.loads(event.payload) == {"kind": "signal"}
    assert (await state(store, one.run_id)).unread_count == 1


@pytest.mark.proves("I3")
async def test_what_came_before_the_run_started_is_there_when_it_does(
    store: SqlStore,
) -> None:
    run_id = await submitted(store)
    await store.apply(a_message(run_id, "early"))
    one = await claimed_one(store, await instance(store))
    items = await store.apply(ConsumeInbox(claim_of(one)))
    assert items is not None
    assert [item.payload for item in items] == ['"early"']


@pytest.mark.proves("R4.11")
async def test_all_that_is_unread_is_taken_at_once_in_order(store: SqlStore) -> None:
    one = await running(store)
    for number in range(5):
        await store.apply(a_message(one.run_id, number))
    items = await store.apply(ConsumeInbox(claim_of(one)))
    assert items is not None
    assert [item.payload for item in items] == ["0", "1", "2", "3", "4"]
    assert {item.consumed_generation for item in items} == {1}
    assert tuple(await store.runs.inbox(one.run_id)) == items
    assert (await state(store, one.run_id)).unread_count == 0
    (*_, consumed, _, _, _, _, last) = await events(store, one.run_id)
    assert consumed.type == EventType.MESSAGES_CONSUMED
    assert last.type == EventType.QUEUED_MESSAGE
    assert json.loads(last.payload) == {"seq": items[-1].seq, "by": items[-1].by, "message": 4}
    assert json.loads(consumed.payload) == {"count": 5}


@pytest.mark.proves("I3")
async def test_what_is_of_another_kind_stays_until_somebody_asks_for_it(
    store: SqlStore,
) -> None:
    one = await running(store)
    for number, kind in enumerate(("message", "signal", "message")):
        await store.apply(a_message(one.run_id, number, kind=kind))
    signals = await store.apply(ConsumeInbox(claim_of(one), kind="signal")) or ()
    assert [item.payload for item in signals] == ["1"]
    assert (await state(store, one.run_id)).unread_count == 2
    assert await store.apply(ConsumeInbox(claim_of(one), kind="signal")) == ()
    items = await store.apply(ConsumeInbox(claim_of(one))) or ()
    assert [item.payload for item in items] == ["0", "2"]
    assert (await state(store, one.run_id)).unread_count == 0


@pytest.mark.proves("I3")
async def test_in_one_batch_each_kind_is_read_again_from_its_own_place(
    store: SqlStore,
) -> None:
    one = await running(store)
    for number, kind in enumerate(("message", "signal", "message")):
        await store.apply(a_message(one.run_id, number, kind=kind))
    (signal,) = await store.apply(ConsumeInbox(claim_of(one), kind="signal")) or ()
    await store.apply(ConsumeInbox(claim_of(one)))
    messages, signals = await together(
        store,
        ConsumeInbox(claim_of(one), replay_after_seq=0),
        ConsumeInbox(claim_of(one), kind="signal", replay_after_seq=signal.seq),
    )
    assert [item.payload for item in messages] == ["0", "2"]
    assert signals == ()


@pytest.mark.proves("R4.11")
async def test_an_empty_inbox_gives_nothing_and_changes_nothing(store: SqlStore) -> None:
    one = await running(store)
    before = await read_all(store)
    assert await store.apply(ConsumeInbox(claim_of(one))) == ()
    assert await read_all(store) == before


@pytest.mark.proves("R4.11")
async def test_each_message_is_taken_once_though_many_take_at_once(
    store: SqlStore, another_store: SqlStore
) -> None:
    one = await running(store)
    stores = (store, another_store)
    taken: list[InboxItem] = []
    for number in range(10):
        answers = await asyncio.gather(
            *(stores[n % 2].apply(a_message(one.run_id, [number, n])) for n in range(4)),
            *(each.apply(ConsumeInbox(claim_of(one))) for each in stores),
        )
        for items in answers[4:]:
            assert isinstance(items, tuple)
            assert list(items) == sorted(items, key=lambda item: item.seq)
            taken += items
    rest = await store.apply(ConsumeInbox(claim_of(one)))
    taken += rest or ()
    assert sorted(json.loads(item.payload) for item in taken) == [
        [number, n] for number in range(10) for n in range(4)
    ]


@pytest.mark.proves("R4.11")
async def test_in_one_batch_a_message_is_read_by_who_comes_after_it(
    store: SqlStore,
) -> None:
    one = await running(store)
    take = ConsumeInbox(claim_of(one))
    _, first, _, second = await together(
        store, a_message(one.run_id, 1), take, a_message(one.run_id, 2), take
    )
    assert [item.payload for item in (*first, *second)] == ["1", "2"]
    assert [item.consumed_generation for item in await store.runs.inbox(one.run_id)] == [1, 1]


@pytest.mark.proves("I2")
async def test_what_a_dead_executor_has_read_is_read_and_the_rest_is_its_successors(
    store: SqlStore,
) -> None:
    one = await running(store)
    await store.apply(a_message(one.run_id, 1))
    await store.apply(ConsumeInbox(claim_of(one)))
    await store.apply(a_message(one.run_id, 2))
    await orphaned(store, one.run_id)
    assert await store.apply(ConsumeInbox(claim_of(one))) is None
    again = await claimed_one(store, await instance(store))
    items = await store.apply(ConsumeInbox(claim_of(again)))
    assert items is not None
    assert [(item.payload, item.consumed_generation) for item in items] == [("2", 2)]


@pytest.mark.proves("R4.15")
async def test_the_inbox_is_bounded(store: SqlStore) -> None:
    one = await running(store)
    posts = [a_message(one.run_id, n) for n in range(UNREAD_COUNT_MAX + 5)]
    answers = await together(store, *posts)
    assert answers[UNREAD_COUNT_MAX:] == [InboxFull(UNREAD_COUNT_MAX)] * 5
    assert len(await store.runs.inbox(one.run_id)) == UNREAD_COUNT_MAX
    before = await read_all(store)
    assert await store.apply(posts[0]) == InboxFull(UNREAD_COUNT_MAX)
    assert await read_all(store) == before
    await store.apply(ConsumeInbox(claim_of(one)))
    assert isinstance(await store.apply(posts[0]), Posted)


@pytest.mark.proves("R4.11")
@pytest.mark.parametrize("source", sorted({*TERMINAL, RunStatus.CANCELLING}), ids=str)
async def test_a_run_that_is_over_or_ending_takes_no_messages(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    run = await given(store, clock, source)
    before = await read_all(store)
    assert await store.apply(a_message(run.run_id)) == NotActive()
    assert await store.apply(a_message(RunId("none"))) == UnknownRun()
    assert await read_all(store) == before


@pytest.mark.proves("I15")
@pytest.mark.parametrize("kind", ['"', "\\", "a b", "ключ"])
async def test_the_event_of_a_message_is_json_whatever_its_kind(store: SqlStore, kind: str) -> None:
    one = await running(store)
    await store.apply(a_message(one.run_id, kind=kind))
    (*_, event) = await events(store, one.run_id)
    assert json.loads(event.payload) == {"kind": kind}
