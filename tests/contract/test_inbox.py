"""The inbox of a run: stored before it is acknowledged, read once, in order, by the claim."""

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
    apply_in_one_batch,
    bring_run_to,
    claim_run,
    orphan_run,
    read_events,
    read_run,
    register_instance,
    start_run,
    submit_run,
)


@pytest.mark.proves("I3")
async def test_message_is_stored_with_its_event(store: SqlStore, clock: FakeClock) -> None:
    run = await start_run(store)
    posting = a_message(run.run_id, {"say": "left"}, kind="signal", call_id="c1", by="bob")
    posted = await store.apply(posting)
    assert isinstance(posted, Posted)
    (item,) = await store.runs.inbox(run.run_id)
    expected = ("signal", "c1", '{"say":"left"}', "bob", clock(), None)
    assert item == InboxItem(run.run_id, posted.seq, *expected)
    (*_, event) = await read_events(store, run.run_id)
    assert (event.seq, event.type) == (posted.seq, EventType.MESSAGE_POSTED)
    assert json.loads(event.payload) == {"kind": "signal"}
    assert (await read_run(store, run.run_id)).unread_count == 1


@pytest.mark.proves("I3")
async def test_messages_sent_before_the_start_are_in_the_inbox_when_the_run_starts(
    store: SqlStore,
) -> None:
    run_id = await submit_run(store)
    await store.apply(a_message(run_id, "early"))
    run = await claim_run(store, await register_instance(store))
    items = await store.apply(ConsumeInbox(claim_of(run)))
    assert items is not None
    assert [item.payload for item in items] == ['"early"']


@pytest.mark.proves("R4.11")
async def test_all_unread_messages_are_consumed_at_once_in_order(store: SqlStore) -> None:
    run = await start_run(store)
    for number in range(5):
        await store.apply(a_message(run.run_id, number))
    items = await store.apply(ConsumeInbox(claim_of(run)))
    assert items is not None
    assert [item.payload for item in items] == ["0", "1", "2", "3", "4"]
    assert {item.consumed_generation for item in items} == {1}
    assert tuple(await store.runs.inbox(run.run_id)) == items
    assert (await read_run(store, run.run_id)).unread_count == 0
    (*_, consumed, _, _, _, _, last) = await read_events(store, run.run_id)
    assert consumed.type == EventType.MESSAGES_CONSUMED
    assert last.type == EventType.QUEUED_MESSAGE
    assert json.loads(last.payload) == {"seq": items[-1].seq, "by": items[-1].by, "message": 4}
    assert json.loads(consumed.payload) == {"count": 5}


@pytest.mark.proves("I3")
async def test_reading_one_kind_of_inbox_item_keeps_the_other_kinds(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    for number, kind in enumerate(("message", "signal", "message")):
        await store.apply(a_message(run.run_id, number, kind=kind))
    signals = await store.apply(ConsumeInbox(claim_of(run), kind="signal")) or ()
    assert [item.payload for item in signals] == ["1"]
    assert (await read_run(store, run.run_id)).unread_count == 2
    assert await store.apply(ConsumeInbox(claim_of(run), kind="signal")) == ()
    items = await store.apply(ConsumeInbox(claim_of(run))) or ()
    assert [item.payload for item in items] == ["0", "2"]
    assert (await read_run(store, run.run_id)).unread_count == 0


@pytest.mark.proves("I3")
async def test_each_kind_of_inbox_item_is_read_from_its_own_position_in_one_batch(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    for number, kind in enumerate(("message", "signal", "message")):
        await store.apply(a_message(run.run_id, number, kind=kind))
    (signal,) = await store.apply(ConsumeInbox(claim_of(run), kind="signal")) or ()
    await store.apply(ConsumeInbox(claim_of(run)))
    messages, signals = await apply_in_one_batch(
        store,
        ConsumeInbox(claim_of(run), replay_after_seq=0),
        ConsumeInbox(claim_of(run), kind="signal", replay_after_seq=signal.seq),
    )
    assert [item.payload for item in messages] == ["0", "2"]
    assert signals == ()


@pytest.mark.proves("R4.11")
async def test_empty_inbox_returns_nothing_and_changes_nothing(store: SqlStore) -> None:
    run = await start_run(store)
    before = await read_all(store)
    assert await store.apply(ConsumeInbox(claim_of(run))) == ()
    assert await read_all(store) == before


@pytest.mark.proves("R4.11")
async def test_each_message_is_consumed_once_by_concurrent_readers(
    store: SqlStore, another_store: SqlStore
) -> None:
    run = await start_run(store)
    stores = (store, another_store)
    taken: list[InboxItem] = []
    for number in range(10):
        answers = await asyncio.gather(
            *(stores[n % 2].apply(a_message(run.run_id, [number, n])) for n in range(4)),
            *(each.apply(ConsumeInbox(claim_of(run))) for each in stores),
        )
        for items in answers[4:]:
            assert isinstance(items, tuple)
            assert list(items) == sorted(items, key=lambda item: item.seq)
            taken += items
    rest = await store.apply(ConsumeInbox(claim_of(run)))
    taken += rest or ()
    assert sorted(json.loads(item.payload) for item in taken) == [
        [number, n] for number in range(10) for n in range(4)
    ]


@pytest.mark.proves("R4.11")
async def test_message_is_read_by_a_later_command_of_its_batch(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    take = ConsumeInbox(claim_of(run))
    _, first, _, second = await apply_in_one_batch(
        store, a_message(run.run_id, 1), take, a_message(run.run_id, 2), take
    )
    assert [item.payload for item in (*first, *second)] == ["1", "2"]
    assert [item.consumed_generation for item in await store.runs.inbox(run.run_id)] == [1, 1]


@pytest.mark.proves("I2")
async def test_next_executor_gets_only_messages_that_the_dead_one_has_not_read(
    store: SqlStore,
) -> None:
    run = await start_run(store)
    await store.apply(a_message(run.run_id, 1))
    await store.apply(ConsumeInbox(claim_of(run)))
    await store.apply(a_message(run.run_id, 2))
    await orphan_run(store, run.run_id)
    assert await store.apply(ConsumeInbox(claim_of(run))) is None
    again = await claim_run(store, await register_instance(store))
    items = await store.apply(ConsumeInbox(claim_of(again)))
    assert items is not None
    assert [(item.payload, item.consumed_generation) for item in items] == [("2", 2)]


@pytest.mark.proves("R4.15")
async def test_inbox_refuses_messages_above_its_limit(store: SqlStore) -> None:
    run = await start_run(store)
    posts = [a_message(run.run_id, n) for n in range(UNREAD_COUNT_MAX + 5)]
    answers = await apply_in_one_batch(store, *posts)
    assert answers[UNREAD_COUNT_MAX:] == [InboxFull(UNREAD_COUNT_MAX)] * 5
    assert len(await store.runs.inbox(run.run_id)) == UNREAD_COUNT_MAX
    before = await read_all(store)
    assert await store.apply(posts[0]) == InboxFull(UNREAD_COUNT_MAX)
    assert await read_all(store) == before
    await store.apply(ConsumeInbox(claim_of(run)))
    assert isinstance(await store.apply(posts[0]), Posted)


@pytest.mark.proves("R4.11")
@pytest.mark.parametrize("source", sorted({*TERMINAL, RunStatus.CANCELLING}), ids=str)
async def test_ended_or_ending_run_accepts_no_messages(
    store: SqlStore, clock: FakeClock, source: RunStatus
) -> None:
    run = await bring_run_to(store, clock, source)
    before = await read_all(store)
    assert await store.apply(a_message(run.run_id)) == NotActive()
    assert await store.apply(a_message(RunId("none"))) == UnknownRun()
    assert await read_all(store) == before


@pytest.mark.proves("I15")
@pytest.mark.parametrize("kind", ['"', "\\", "a b", "ключ"])
async def test_event_of_a_message_is_valid_json_for_any_kind_of_message(
    store: SqlStore, kind: str
) -> None:
    run = await start_run(store)
    await store.apply(a_message(run.run_id, kind=kind))
    (*_, event) = await read_events(store, run.run_id)
    assert json.loads(event.payload) == {"kind": kind}
