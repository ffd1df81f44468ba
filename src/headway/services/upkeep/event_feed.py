"""Distribute the newest events to any number of watchers, and read each event only once.

The feed follows the event stream of the database and holds its newest part in a buffer. Events that
this process commits are appended directly if they continue the stream without a gap. Otherwise, and
once per POLL_S, the feed reads the database: events are numbered in commit order without gaps, so
reading after `last_seq` finds everything that is missing. A watcher stores only its position. It
calls `page_after` and `wait` in turn, and several watchers at the same position share one page. A
watcher that has fallen behind the buffer reads pages from the database, so a slow watcher does not
delay the others or use memory. A watcher whose position was pruned gets a page with `is_gap`; it
must then take a snapshot and continue from `up_to_seq`.

Numbers alone do not identify events: after a restore of a backup, other events are written under
numbers that were used before. A position is therefore a number together with the time of that
event. If the event with this number has another time, there is a gap. This holds for the position
of a watcher and for that of the feed itself. After a failover the new primary may lack commits. Its
`epoch` is higher, and the feed then discards its buffer. In both cases `history_count` grows, so
that watchers do not trust earlier events.
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
"""The maximum length of the packed events of a page. A longer event has its own page."""
BUFFER_COUNT_MAX: Final = 4_000
BUFFER_LENGTH_MAX: Final = 32 << 20

T = TypeVar("T", bound=Sized)
log = event_log(__name__)


class FeedEntry(NamedTuple, Generic[T]):
    event: Event
    """The event without its payload, which is part of `packed`."""
    packed: T


class FeedPage(NamedTuple, Generic[T]):
    entries: Sequence[FeedEntry[T]]
    up_to_seq: int
    """The position after this page, from which the next read continues."""
    is_gap: bool = False
    """True if events are missing. Take a snapshot, then continue from `up_to_seq`."""
    has_more: bool = False
    """True if more events exist already. For a page of one run, true if more may exist."""
    epoch: int = 0
    """The epoch of the database that was read."""


EMPTY_CACHE: Final = (-1, -1, FeedPage[Any]((), -1))


class EventFeed(Generic[T]):
    """Follows the event stream inside `async with`.

    `pack` encodes each event once for all watchers. The length of an event is that of its encoded
    form. `on_event` is called once for each new event, in order.
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
        """The start position and `last_seq` of the last page from the buffer, and that page."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_reading = False
        self._is_history_replaced = False
        """True if a buffered number now belongs to another event, so that the buffer is invalid."""
        self.last_seq = 0
        self.last_at: Instant | None = None
        """When the event `last_seq` was written, or None if there is no such event."""
        self.history_count = 0
        """How often the history in the database was replaced, for example by a restore."""
        self.epoch = 0
        """The epoch of the database. After it changes, earlier events may no longer exist."""
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
        """Mark the feed as closed, and wake all watchers for the last time."""
        self.is_closed = True
        self._wake_watchers()

    async def page_after(self, seq: int, *, run_id: RunId | None = None) -> FeedPage[T]:
        """Return at most one page of the events after `seq`, from the buffer if possible.

        `run_id` restricts a read of the database to one run. A page from the buffer contains the
        events of all runs.
        """
        last_seq = self.last_seq
        if seq > last_seq:  # The watcher may have read a commit that the feed has not read yet.
            page = await self._reader.events(after_seq=seq, limit=1)
            return FeedPage((), min(seq, page.last_seq), is_gap=seq > page.last_seq)
        if seq == last_seq:
            return FeedPage((), seq)
        if self._cached_page[:2] == (seq, last_seq):
            return self._cached_page[2]  # Most watchers are at the same position.
        if self._buffer and self._buffer[0].event.seq <= seq + 1:
            start = seq + 1 - self._buffer[0].event.seq  # The numbers have no gaps.
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
        """Read a page of the events after `seq` from the database, including the latest commits.

        `at` is the time at which the event `seq` was written, and `epoch` the epoch in which it was
        read, if the caller has them. If the database has other values now, there is a gap. With
        `or_oldest` a page with a gap also contains the events after the gap, from the oldest stored
        event on.
        """
        page = await self._reader.events(
            after_seq=seq, limit=PAGE_SIZE, length_max=PAGE_LENGTH_MAX, run_id=run_id
        )
        is_other = epoch not in (None, page.epoch) or at not in (None, page.after_seq_written_at)
        is_gap = is_other or not page.pruned_seq <= seq <= page.last_seq
        if is_gap and not or_oldest:
            return FeedPage((), page.last_seq, is_gap=True, epoch=page.epoch)
        entries = [self._to_entry(event) for event in page.events]
        up_to_seq = entries[-1].event.seq if page.has_more else page.last_seq
        return FeedPage(entries, up_to_seq, is_gap, up_to_seq < page.last_seq, page.epoch)

    async def wait_for_epoch(self, epoch: int) -> None:
        """Wait until the feed has reached `epoch`.

        A watcher may have read a new epoch from the database before the feed has. Return early if
        the database has no newer epoch than the feed.
        """
        while epoch > self.epoch and not self.is_closed:
            page = await self._reader.events(after_seq=0, limit=1)
            if page.epoch <= self.epoch:  # The watcher's epoch is that of another database.
                return
            self._wake.set()
            await self.wait(self.last_seq, timeout_s=POLL_S)

    async def wait(self, seq: int, *, timeout_s: float) -> None:
        """Wait until there are events after `seq`, the feed is closed, or the time is over."""
        changed = self._changed
        if self.last_seq > seq or self.is_closed:
            return
        await wait_until_set(changed, timeout_s)

    def _on_events(self, events: Sequence[Event]) -> None:
        """Append events that continue the stream without a gap. Otherwise trigger a read."""
        new = [event for event in events if event.seq > self.last_seq]
        seqs = [event.seq for event in new]
        for event in events[: len(events) - len(new)]:
            if self._known_time_of(event.seq) not in (None, event.at):
                self._is_history_replaced = True
        if (
            self._is_reading
            or self._is_history_replaced
            or seqs != list(range(self.last_seq + 1, self.last_seq + 1 + len(seqs)))
        ):
            self._wake.set()
        elif new:
            try:
                self._append(new)
            except Exception:  # A bug here must not fail the caller, whose commit succeeded.
                log.exception("event_append_failed")
                self._wake.set()

    async def _follow(self) -> None:
        while True:  # Ends by cancellation only.
            self._wake.clear()
            try:
                while await self._read_next():
                    continue
            except InfrastructureError as error:  # Watchers wait, and no event is lost.
                log.warning("event_read_failed", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # Continue, or the watchers would wait forever.
                log.exception("event_feed_crashed")
                await asyncio.sleep(POLL_S)
            await wait_until_set(self._wake, POLL_S)

    async def _read_next(self) -> bool:
        """Read one page of events after `last_seq` into the buffer. Return whether more exist."""
        last_at: Instant | None = None
        self._is_reading = True
        try:
            page = await self._reader.events(
                after_seq=self.last_seq, limit=PAGE_SIZE, length_max=PAGE_LENGTH_MAX
            )
            is_other = self._has_other_history(page)
            is_gap = is_other or self.last_seq < page.pruned_seq
            if is_gap:
                # Read the time once here. Otherwise each watcher would query it for its pings.
                last_at = (
                    await self._reader.events(after_seq=page.last_seq, limit=0)
                ).after_seq_written_at
        finally:
            self._is_reading = False
        if is_gap:
            # The history was replaced, or the process was suspended for so long that events were
            # pruned meanwhile. The buffer cannot be continued in either case.
            self._buffer.clear()
            self._buffer_length = 0
            self._cached_page = EMPTY_CACHE
            self.last_seq, self.epoch, self.last_at = page.last_seq, page.epoch, last_at
            self.history_count += is_other
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
        # A pruned event cannot be compared.
        is_comparable = self.last_seq > page.pruned_seq and self.last_at is not None
        return is_comparable and page.after_seq_written_at != self.last_at

    def _append(self, events: Sequence[Event]) -> None:
        # Encode all events first, because that may raise: none or all must be appended.
        entries = [self._to_entry(event) for event in events]
        self._buffer.extend(entries)
        self._buffer_length += sum([len(entry.packed) for entry in entries])
        while len(self._buffer) > BUFFER_COUNT_MAX or self._buffer_length > BUFFER_LENGTH_MAX:
            self._buffer_length -= len(self._buffer.popleft().packed)
        self.last_seq, self.last_at = events[-1].seq, events[-1].at
        self._wake_watchers()
        for event in events:
            try:
                self._on_event(event)
            except Exception:  # A failed callback must not affect the other events.
                log.exception("event_callback_failed", extra={"seq": event.seq})

    def _to_entry(self, event: Event) -> FeedEntry[T]:
        return FeedEntry(event._replace(payload=""), self._pack(event))

    def _wake_watchers(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _cut_page(entries: Iterable[FeedEntry[T]]) -> list[FeedEntry[T]]:
    """Return the first entries, as many as fit into a page, but at least one."""
    page: list[FeedEntry[T]] = []
    length = 0
    for entry in entries:
        length += len(entry.packed)
        if page and length > PAGE_LENGTH_MAX:
            break
        page.append(entry)
    return page
