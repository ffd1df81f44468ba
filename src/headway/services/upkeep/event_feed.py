"""The newest events, read once for all who watch, however many they are.

Each watcher keeps only its place. Who falls behind what is held in memory reads on from the
database, and who asks for what was pruned is told so: a slow watcher costs nobody anything.

Numbers alone do not identify events: after a backup is restored, other events are written under
numbers that were used before. A position in the stream is therefore a number and the time of that
event. If a watcher, or this feed itself, finds another time under its number, there is a gap.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import islice
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from headway.core.errors import InfrastructureError
from headway.core.ids import Instant, RunId
from headway.core.run.events import Event
from headway.log import event_log
from headway.ports.event_reader import EventReader, EventSlice
from headway.ports.store import Store
from headway.services.retrying import wait_until_set

POLL_S: Final = 1.0
PAGE_SIZE: Final = 500
PAGE_LENGTH_MAX: Final = 128 << 10
"""Of what one watcher is given at a time; an event that is longer goes alone."""
BUFFER_COUNT_MAX: Final = 4_000
BUFFER_LENGTH_MAX: Final = 32 << 20

T = TypeVar("T", bound=Sized)
log = event_log(__name__)


class FeedEntry(NamedTuple, Generic[T]):
    event: Event
    """Without its payload: that is in `packed`."""
    packed: T


class FeedPage(NamedTuple, Generic[T]):
    entries: Sequence[FeedEntry[T]]
    up_to_seq: int
    """Everything up to here was looked at: where the next look begins."""
    is_gap: bool = False
    """What was asked for is not there: take a snapshot, and go on from `upto_seq`."""
    has_more: bool = False
    """Already, for which there was no room. Of one run: there may be."""
    epoch: int = 0
    """Of the database that was read."""


EMPTY_CACHE: Final = (-1, -1, FeedPage[Any]((), -1))


class EventFeed(Generic[T]):
    """Works inside `async with`. `pack` is done once for each event, for all watchers, and what it
    gives has the length that counts.

    `note` is told of each new event once, in order.
    """

    def __init__(
        self,
        store: Store,
        reader: EventReader,
        *,
        pack: Callable[[Event], T],
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._on_event = on_event
        self._store = store
        self._reader = reader
        self._pack = pack
        self._buffer: deque[FeedEntry[T]] = deque()
        self._buffer_length = 0
        self._cached_page: tuple[int, int, FeedPage[T]] = EMPTY_CACHE
        """What was wanted last: after which one, up to which, and what that is."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_reading = False
        self._is_history_replaced = False
        """Whether a number now belongs to another event, so that the events in memory are wrong."""
        self.last_seq = 0
        self.last_at: Instant | None = None
        """When the event `last_seq` was written, or None if there is no such event."""
        self.history_count = 0
        """A counter that grows when the database has another history than before."""
        self.epoch = 0
        """Another one than a watcher has begun with: what it has seen may not be so any more."""
        self.is_closed = False

    async def __aenter__(self) -> Self:
        page = await self._reader.events(after_seq=0, limit=0)
        self.last_seq, self.epoch = page.last_seq, page.epoch
        self.last_at = (
            await self._reader.events(after_seq=self.last_seq, limit=0)
        ).after_seq_written_at
        self._stop_listening = self._store.listen(self._on_events)
        self._follow_task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        self._stop_listening()
        self._follow_task.cancel()
        await asyncio.wait([self._follow_task])

    def close(self) -> None:
        """Wake all watchers, for the last time."""
        self.is_closed = True
        self._wake_watchers()

    async def page_after(self, seq: int, *, run_id: RunId | None = None) -> FeedPage[T]:
        """What follows `seq`, a page of it at most; of one run, if that is wanted."""
        last_seq = self.last_seq
        if seq > last_seq:  # It may be what another process has committed just now.
            page = await self._reader.events(after_seq=seq, limit=1)
            return FeedPage((), min(seq, page.last_seq), is_gap=seq > page.last_seq)
        if seq == last_seq:
            return FeedPage((), seq)
        if self._cached_page[:2] == (seq, last_seq):
            return self._cached_page[2]  # Most watchers are at the same place.
        if self._buffer and self._buffer[0].event.seq <= seq + 1:
            start = seq + 1 - self._buffer[0].event.seq  # There are no gaps.
            entries = _cut_page(islice(self._buffer, start, start + PAGE_SIZE))
            self._cached_page = (seq, last_seq, FeedPage(entries, entries[-1].event.seq))
            return self._cached_page[2]
        return await self.read(seq, run_id=run_id)

    async def time_of(self, seq: int) -> Instant | None:
        """Return when the event `seq` was written, or None if there is no such event."""
        known_at = self._known_time_of(seq)
        if known_at is not None or seq == self.last_seq:
            return known_at
        return (await self._reader.events(after_seq=seq, limit=0)).after_seq_written_at

    def _known_time_of(self, seq: int) -> Instant | None:
        if seq == self.last_seq:
            return self.last_at
        first_seq = self._buffer[0].event.seq if self._buffer else self.last_seq + 1
        return self._buffer[seq - first_seq].event.at if first_seq <= seq < self.last_seq else None

    async def read(
        self,
        seq: int,
        *,
        run_id: RunId | None = None,
        at: Instant | None = None,
        epoch: int | None = None,
        or_oldest: bool = False,
    ) -> FeedPage[T]:
        """The same from the database: whatever was committed before is in it.

        `at` is when the event `seq` was written, and `epoch` the one in which it was read, if the
        caller has them. If they differ now, there is a gap.
        With `or_oldest` a gap comes with what follows it, from the oldest that is kept.
        """
        page = await self._reader.events(
            after_seq=seq, limit=PAGE_SIZE, length_max=PAGE_LENGTH_MAX, run_id=run_id
        )
        has_moved = epoch not in (None, page.epoch) or at not in (None, page.after_seq_written_at)
        is_gap = has_moved or not page.pruned_seq <= seq <= page.last_seq
        if is_gap and not or_oldest:
            return FeedPage((), page.last_seq, is_gap=True, epoch=page.epoch)
        entries = [self._to_entry(event) for event in page.events]
        upto_seq = entries[-1].event.seq if page.has_more else page.last_seq
        return FeedPage(entries, upto_seq, is_gap, upto_seq < page.last_seq, page.epoch)

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until it is known here, too, if the database is there already.

        A watcher may have read of a failover from the database before this feed has seen it.
        """
        while epoch > self.epoch and not self.is_closed:
            page = await self._reader.events(after_seq=0, limit=1)
            if page.epoch <= self.epoch:  # It has never been so far: a watcher of another one.
                return
            self._wake.set()
            await self.wait(self.last_seq, timeout_s=POLL_S)

    async def wait(self, seq: int, *, timeout_s: float) -> None:
        """Until there is more than `seq`, or the feed is closed, or the time is over."""
        changed = self._changed
        if self.last_seq > seq or self.is_closed:
            return
        await wait_until_set(changed, timeout_s)

    def _on_events(self, events: Sequence[Event]) -> None:
        """What follows at once on what is known is taken as it is; else the database is asked."""
        fresh = [event for event in events if event.seq > self.last_seq]
        seqs = [event.seq for event in fresh]
        for event in events[: len(events) - len(fresh)]:
            if self._known_time_of(event.seq) not in (None, event.at):
                self._is_history_replaced = True
        if (
            self._is_reading
            or self._is_history_replaced
            or seqs != list(range(self.last_seq + 1, self.last_seq + 1 + len(seqs)))
        ):
            self._wake.set()
        elif fresh:
            try:
                self._append(fresh)
            except Exception:  # Whoever has committed them is not to blame.
                log.exception("events_not_taken")
                self._wake.set()

    async def _follow(self) -> None:
        while True:  # Ends by cancellation only.
            self._wake.clear()
            try:
                while await self._read_next():
                    continue
            except InfrastructureError as error:  # Watchers wait; nothing is lost.
                log.warning("events_not_read", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # Nobody would begin anew: watchers would wait for ever.
                log.exception("event_feed_broke")
                await asyncio.sleep(POLL_S)
            await wait_until_set(self._wake, POLL_S)

    async def _read_next(self) -> bool:
        """Whether there may be more."""
        last_at: Instant | None = None
        self._is_reading = True
        try:
            page = await self._reader.events(
                after_seq=self.last_seq, limit=PAGE_SIZE, length_max=PAGE_LENGTH_MAX
            )
            has_moved = self._has_other_history(page)
            is_lost = has_moved or self.last_seq < page.pruned_seq
            if is_lost:
                # Read once here, or each watcher would query it for the ids of its pings.
                last_at = (
                    await self._reader.events(after_seq=page.last_seq, limit=0)
                ).after_seq_written_at
        finally:
            self._is_reading = False
        if is_lost:
            # Another database than before, or long asleep: nothing that is held is of use.
            self._buffer.clear()
            self._buffer_length = 0
            self._cached_page = EMPTY_CACHE
            self.last_seq, self.epoch, self.last_at = page.last_seq, page.epoch, last_at
            self.history_count += has_moved
            self._is_history_replaced = False
            self._wake_watchers()
            return False
        if page.events:
            self._append(page.events)
        return page.has_more

    def _has_other_history(self, page: EventSlice) -> bool:
        """Return whether the database has another history than the one read so far."""
        if self._is_history_replaced or page.epoch != self.epoch or page.last_seq < self.last_seq:
            return True
        # An event that is pruned cannot be compared.
        is_comparable = self.last_seq > page.pruned_seq and self.last_at is not None
        return is_comparable and page.after_seq_written_at != self.last_at

    def _append(self, events: Sequence[Event]) -> None:
        # All that can go wrong comes first: half of them taken would be taken twice.
        entries = [self._to_entry(event) for event in events]
        self._buffer.extend(entries)
        self._buffer_length += sum([len(one.packed) for one in entries])
        while len(self._buffer) > BUFFER_COUNT_MAX or self._buffer_length > BUFFER_LENGTH_MAX:
            self._buffer_length -= len(self._buffer.popleft().packed)
        self.last_seq, self.last_at = events[-1].seq, events[-1].at
        self._wake_watchers()
        for event in events:
            try:
                self._on_event(event)
            except Exception:  # It is not counted, and all others are.
                log.exception("event_not_noted", extra={"seq": event.seq})

    def _to_entry(self, event: Event) -> FeedEntry[T]:
        return FeedEntry(event._replace(payload=""), self._pack(event))

    def _wake_watchers(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _cut_page(entries: Iterable[FeedEntry[T]]) -> list[FeedEntry[T]]:
    """As many of them as one may be given at a time, one at least."""
    page: list[FeedEntry[T]] = []
    length = 0
    for entry in entries:
        length += len(entry.packed)
        if page and length > PAGE_LENGTH_MAX:
            break
        page.append(entry)
    return page
