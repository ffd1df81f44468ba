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
from tests.contract.scenes import start_run

pytestmark = pytest.mark.backend("sqlite")


class CountedReader:
    def __init__(self, reader: EventReader) -> None:
        self._reader = reader
        self.count = 0
        self.time_count = 0
        """The number of reads with limit 0, which read only the time of an event."""

    async def events(self, **query: Any) -> EventSlice:
        self.count += 1
        self.time_count += query["limit"] == 0
        return await self._reader.events(**query)

    async def event_times(self, **query: Any) -> Sequence[tuple[int, Instant]]:
        return await self._reader.event_times(**query)


@pytest.fixture
async def store(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqlStore]:
    monkeypatch.setattr(event_feed, "POLL_S", 0.01)
    store = await open_store([url])
    yield store
    await store.close()


def pack(event: Event) -> str:
    return f"{event.seq} {event.payload}"


@asynccontextmanager
async def open_feed(
    store: SqlStore,
    *,
    reader: EventReader | None = None,
    pack: Callable[[Event], str] = pack,
    on_event: Callable[[Event], None] = lambda _: None,
) -> AsyncIterator[EventFeed[str]]:
    async with EventFeed(store, reader or store.events, pack=pack, on_event=on_event) as feed:
        yield feed


async def read_as_watcher(feed: EventFeed[str], *, after: int, up_to_seq: int) -> list[int]:
    seen: list[int] = []
    while after < up_to_seq:
        batch = await feed.page_after(after)
        assert not batch.is_gap
        if batch.up_to_seq == after:
            await feed.wait(after, timeout_s=1)
        for entry in batch.entries:
            assert entry.packed.startswith(f"{entry.event.seq} ")
        seen += [entry.event.seq for entry in batch.entries]
        after = batch.up_to_seq
    return seen


async def wait_for_seq(feed: EventFeed[str], *, up_to_seq: int) -> None:
    while feed.last_seq < up_to_seq:
        await feed.wait(feed.last_seq, timeout_s=1)


async def submit(store: SqlStore, count: int) -> None:
    for number in range(count):
        await store.apply(a_submit(f"key-{number}"))


@pytest.mark.proves("I16")
@pytest.mark.parametrize("limit", ["BUFFER_COUNT_MAX", "BUFFER_LENGTH_MAX"])
async def test_events_outside_the_window_are_read_from_the_database(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    length = len('1 {"from":null,"to":"queued"}')
    monkeypatch.setattr(event_feed, limit, 5 if limit == "BUFFER_COUNT_MAX" else 6 * length)
    monkeypatch.setattr(
        event_feed, "POLL_S", 1_000.0
    )  # Hints are enough; it must not need the poll.
    reader = CountedReader(store.events)
    async with open_feed(store, reader=reader) as feed:
        await submit(store, 20)
        await wait_for_seq(feed, up_to_seq=20)
        before = reader.count
        assert await read_as_watcher(feed, after=15, up_to_seq=20) == list(range(16, 21))
        assert reader.count == before
        assert await read_as_watcher(feed, after=5, up_to_seq=20) == list(range(6, 21))
        assert reader.count > before


@pytest.mark.proves("I16")
async def test_a_watcher_receives_at_most_one_page_per_read(store: SqlStore) -> None:
    claim = claim_of(await start_run(store))
    async with open_feed(store) as feed:
        begin = feed.last_seq
        payload_lengths = (40_000, 40_000, 40_000, 40_000, 300_000, 10, 10)
        await store.apply(
            AppendEvents(
                claim,
                tuple(JobEvent("reported", document("x" * length)) for length in payload_lengths),
            )
        )
        await wait_for_seq(feed, up_to_seq=begin + len(payload_lengths))
        for read in (feed.page_after, feed.read):
            counts, after = [], begin
            while after < feed.last_seq:
                batch = await read(after)
                counts.append(len(batch.entries))
                after = batch.up_to_seq
            assert counts == [3, 1, 1, 2]


@pytest.mark.proves("I13")
async def test_events_whose_packing_failed_at_first_are_served_once(
    store: SqlStore,
) -> None:
    """The committer and the other listeners of the same commits are not affected."""
    errors_left = 3

    def pack_at_last(event: Event) -> str:
        nonlocal errors_left
        if event.seq >= 3 and errors_left:
            errors_left -= 1
            raise ValueError("a status from the future")
        return pack(event)

    received: list[int] = []
    async with asyncio.timeout(20), open_feed(store, pack=pack_at_last) as feed:
        store.listen(lambda events: received.extend(event.seq for event in events))
        await asyncio.gather(*(store.apply(a_submit(f"key-{n}")) for n in range(10)))
        assert await read_as_watcher(feed, after=0, up_to_seq=10) == list(range(1, 11))
        assert await read_as_watcher(feed, after=4, up_to_seq=10) == list(range(5, 11))
    assert (received, errors_left) == (list(range(1, 11)), 0)


@pytest.mark.proves("I13")
async def test_an_event_callback_that_raises_affects_no_other_event(store: SqlStore) -> None:
    noted: list[int] = []

    def record_even(event: Event) -> None:
        if event.seq % 2:
            raise ValueError("an odd one")
        noted.append(event.seq)

    async with asyncio.timeout(20), open_feed(store, on_event=record_even) as feed:
        await submit(store, 6)
        assert await read_as_watcher(feed, after=0, up_to_seq=6) == list(range(1, 7))
    assert noted == [2, 4, 6]


@pytest.mark.proves("I14")
async def test_a_gap_is_reported_and_a_read_may_continue_with_the_oldest_events(
    store: SqlStore,
) -> None:
    await submit(store, 6)
    await store.apply(PruneEvents(up_to_seq=4))
    async with open_feed(store) as feed:
        for read in (feed.page_after, feed.read):
            assert (await read(2))[:3] == ((), 6, True)
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

    async def events(self, **query: Any) -> EventSlice:
        page = await self._reader.events(**query)
        last_seq = page.last_seq - self.lost_count
        stored = [event for event in page.events if event.seq <= last_seq]
        return replace(page, events=stored, last_seq=last_seq, epoch=self.epoch)

    async def event_times(self, **query: Any) -> Sequence[tuple[int, Instant]]:
        return await self._reader.event_times(**query)


@pytest.mark.proves("I14")
async def test_after_a_failover_no_buffered_event_is_served(store: SqlStore) -> None:
    primary = Primary(store)
    async with open_feed(store, reader=primary) as feed:
        await submit(store, 5)
        await wait_for_seq(feed, up_to_seq=5)
        assert (await feed.page_after(4)).up_to_seq == 5
        primary.epoch, primary.lost_count = 2, 3
        while feed.epoch == 1:
            await feed.wait(feed.last_seq, timeout_s=1)
        assert feed.last_seq == 2
        primary.lost_count = 0
        await wait_for_seq(feed, up_to_seq=5)
        assert await read_as_watcher(feed, after=2, up_to_seq=5) == [3, 4, 5]


@pytest.mark.proves("I14")
async def test_the_time_of_the_last_event_is_read_only_once_after_a_failover(
    store: SqlStore,
) -> None:
    """Each watcher needs it for each ping, and there may be thousands of watchers."""
    primary = Primary(store)
    reader = CountedReader(primary)
    async with open_feed(store, reader=reader) as feed:
        await submit(store, 5)
        await wait_for_seq(feed, up_to_seq=5)
        primary.epoch, primary.lost_count = 2, 3
        while feed.epoch == 1:
            await feed.wait(feed.last_seq, timeout_s=1)
        before = reader.time_count
        (_, second) = await store.events.event_times(after_seq=0, limit=2)
        assert [await feed.time_of(2) for _ in range(10)] == [second[1]] * 10
        assert reader.time_count == before


@pytest.mark.proves("I16")
async def test_the_time_of_a_missing_event_is_read_only_once(store: SqlStore) -> None:
    reader = CountedReader(store.events)
    async with open_feed(store, reader=reader) as feed:
        before = reader.time_count
        assert [await feed.time_of(0) for _ in range(10)] == [None] * 10
        assert reader.time_count == before
