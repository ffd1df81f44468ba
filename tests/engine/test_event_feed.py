"""The feed: every event once and in order for each watcher, in bounded memory (I13, I16)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.command.admin.prune import PruneEvents
from headway.core.command.run.report import AppendEvents, JobEvent
from headway.core.ids import Instant
from headway.core.run.events import Event
from headway.ports.event_reader import EventReader, EventSlice
from headway.services.upkeep import event_feed
from headway.services.upkeep.event_feed import EventFeed
from headway.testing import a_submit, claim_of, document
from tests.contract.scenes import running

pytestmark = pytest.mark.backend("sqlite")


class CountedReader:
    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self.count = 0
        self.time_count = 0
        """How many of them read the time of an event and no events."""

    async def events(self, **asked: Any) -> EventSlice:
        self.count += 1
        self.time_count += asked["limit"] == 0
        return await self._reader.events(**asked)

    async def event_times(self, **asked: Any) -> Sequence[tuple[int, Instant]]:
        return await self._reader.event_times(**asked)


@pytest.fixture
async def store(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqlStore]:
    monkeypatch.setattr(event_feed, "POLL_S", 0.01)
    store = await open_store([url])
    yield store
    await store.close()


def pack(event: Event) -> str:
    return f"{event.seq} {event.payload}"


@asynccontextmanager
async def fed(
    store: SqlStore,
    *,
    reader: EventReader | None = None,
    pack: Callable[[Event], str] = pack,
    note: Callable[[Event], None] = lambda _: None,
) -> AsyncIterator[EventFeed[str]]:
    async with EventFeed(store, reader or store.events, pack=pack, on_event=note) as feed:
        yield feed


async def seen_by_a_watcher(feed: EventFeed[str], *, after: int, upto: int) -> list[int]:
    seen: list[int] = []
    while after < upto:
        batch = await feed.page_after(after)
        assert not batch.is_gap
        if batch.up_to_seq == after:
            await feed.wait(after, timeout_s=1)
        for entry in batch.entries:
            assert entry.packed.startswith(f"{entry.event.seq} ")
        seen += [entry.event.seq for entry in batch.entries]
        after = batch.up_to_seq
    return seen


async def heard(feed: EventFeed[str], *, upto: int) -> None:
    while feed.last_seq < upto:
        await feed.wait(feed.last_seq, timeout_s=1)


async def submit(store: SqlStore, count: int) -> None:
    for number in range(count):
        await store.apply(a_submit(f"key-{number}"))


@pytest.mark.proves("I16")
@pytest.mark.parametrize("limit", ["HELD_COUNT_MAX", "BUFFER_LENGTH_MAX"])
async def test_what_does_not_fit_the_window_is_read_from_the_database(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    length = len('1 {"from":null,"to":"queued"}')
    monkeypatch.setattr(event_feed, limit, 5 if limit == "HELD_COUNT_MAX" else 6 * length)
    monkeypatch.setattr(event_feed, "POLL_S", 1_000.0)  # It hears what it needs to know.
    reader = CountedReader(store.events)
    async with fed(store, reader=reader) as feed:
        await submit(store, 20)
        await heard(feed, upto=20)
        before = reader.count
        assert await seen_by_a_watcher(feed, after=15, upto=20) == list(range(16, 21))
        assert reader.count == before
        assert await seen_by_a_watcher(feed, after=5, upto=20) == list(range(6, 21))
        assert reader.count > before


@pytest.mark.proves("I16")
async def test_a_watcher_is_given_no_more_than_a_page(store: SqlStore) -> None:
    claim = claim_of(await running(store))
    async with fed(store) as feed:
        begin = feed.last_seq
        lines = (40_000, 40_000, 40_000, 40_000, 300_000, 10, 10)
        await store.apply(
            AppendEvents(claim, tuple(JobEvent("told", document("x" * length)) for length in lines))
        )
        await heard(feed, upto=begin + len(lines))
        for look in (feed.page_after, feed.read):
            counts, after = [], begin
            while after < feed.last_seq:
                batch = await look(after)
                counts.append(len(batch.entries))
                after = batch.up_to_seq
            assert counts == [3, 1, 1, 2]


@pytest.mark.proves("I13")
async def test_events_that_could_not_be_packed_at_first_are_served_once(
    store: SqlStore,
) -> None:
    """Nor is whoever committed them disturbed, and those who listen to the same commits."""
    faults = 3

    def pack_at_last(event: Event) -> str:
        nonlocal faults
        if event.seq >= 3 and faults:
            faults -= 1
            raise ValueError("a status from the future")
        return pack(event)

    heard: list[int] = []
    async with asyncio.timeout(20), fed(store, pack=pack_at_last) as feed:
        store.listen(lambda events: heard.extend(event.seq for event in events))
        await asyncio.gather(*(store.apply(a_submit(f"key-{n}")) for n in range(10)))
        assert await seen_by_a_watcher(feed, after=0, upto=10) == list(range(1, 11))
        assert await seen_by_a_watcher(feed, after=4, upto=10) == list(range(5, 11))
    assert (heard, faults) == (list(range(1, 11)), 0)


@pytest.mark.proves("I13")
async def test_a_note_that_goes_wrong_costs_itself_alone(store: SqlStore) -> None:
    noted: list[int] = []

    def note(event: Event) -> None:
        if event.seq % 2:
            raise ValueError("an odd one")
        noted.append(event.seq)

    async with asyncio.timeout(20), fed(store, note=note) as feed:
        await submit(store, 6)
        assert await seen_by_a_watcher(feed, after=0, upto=6) == list(range(1, 7))
    assert noted == [2, 4, 6]


@pytest.mark.proves("I14")
async def test_a_gap_is_told_or_followed_by_what_is_kept(store: SqlStore) -> None:
    await submit(store, 6)
    await store.apply(PruneEvents(up_to_seq=4))
    async with fed(store) as feed:
        for look in (feed.page_after, feed.read):
            assert (await look(2))[:3] == ((), 6, True)
        batch = await feed.read(2, or_oldest=True)
        assert [entry.event.seq for entry in batch.entries] == [5, 6]
        assert (batch.up_to_seq, batch.is_gap) == (6, True)
        assert (await feed.page_after(1_000)).is_gap


class Primary:
    """A database that fails over to a replica which lacks its last events."""

    def __init__(self, store: SqlStore) -> None:
        self._reader = store.events
        self.epoch = 1
        self.lost_count = 0

    async def events(self, **asked: Any) -> EventSlice:
        page = await self._reader.events(**asked)
        last_seq = page.last_seq - self.lost_count
        kept = [event for event in page.events if event.seq <= last_seq]
        return replace(page, events=kept, last_seq=last_seq, epoch=self.epoch)

    async def event_times(self, **asked: Any) -> Sequence[tuple[int, Instant]]:
        return await self._reader.event_times(**asked)


@pytest.mark.proves("I14")
async def test_after_a_failover_nothing_that_was_held_before_is_told(store: SqlStore) -> None:
    primary = Primary(store)
    async with fed(store, reader=primary) as feed:
        await submit(store, 5)
        await heard(feed, upto=5)
        assert (await feed.page_after(4)).up_to_seq == 5
        primary.epoch, primary.lost_count = 2, 3
        while feed.epoch == 1:
            await feed.wait(feed.last_seq, timeout_s=1)
        assert feed.last_seq == 2
        primary.lost_count = 0
        await heard(feed, upto=5)
        assert await seen_by_a_watcher(feed, after=2, upto=5) == [3, 4, 5]


@pytest.mark.proves("I14")
async def test_time_of_the_last_event_is_read_once_after_a_failover(store: SqlStore) -> None:
    """Each watcher needs it for each ping, and there may be thousands of them."""
    primary = Primary(store)
    reader = CountedReader(primary)
    async with fed(store, reader=reader) as feed:
        await submit(store, 5)
        await heard(feed, upto=5)
        primary.epoch, primary.lost_count = 2, 3
        while feed.epoch == 1:
            await feed.wait(feed.last_seq, timeout_s=1)
        before = reader.time_count
        (_, second) = await store.events.event_times(after_seq=0, limit=2)
        assert [await feed.time_of(2) for _ in range(10)] == [second[1]] * 10
        assert reader.time_count == before


@pytest.mark.proves("I16")
async def test_time_of_an_event_that_is_not_there_is_not_read_again(store: SqlStore) -> None:
    reader = CountedReader(store.events)
    async with fed(store, reader=reader) as feed:
        before = reader.time_count
        assert [await feed.time_of(0) for _ in range(10)] == [None] * 10
        assert reader.time_count == before
