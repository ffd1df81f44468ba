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
from headway.ports.event_reader import EventReader, Page
from headway.ports.store import Store
from headway.services.retrying import is_set_within

POLL_S: Final = 1.0
PAGE_COUNT: Final = 500
PAGE_LENGTH_MAX: Final = 128 << 10
"""Of what one watcher is given at a time; an event that is longer goes alone."""
HELD_COUNT_MAX: Final = 4_000
HELD_LENGTH_MAX: Final = 32 << 20

T = TypeVar("T", bound=Sized)
log = event_log(__name__)


class Entry(NamedTuple, Generic[T]):
    event: Event
    """Without its payload: that is in `packed`."""
    packed: T


class Batch(NamedTuple, Generic[T]):
    entries: Sequence[Entry[T]]
    upto_seq: int
    """Everything up to here was looked at: where the next look begins."""
    is_gap: bool = False
    """What was asked for is not there: take a snapshot, and go on from `upto_seq`."""
    has_more: bool = False
    """Already, for which there was no room. Of one run: there may be."""
    epoch: int = 0
    """Of the database that was read."""


NOTHING_ASKED: Final = (-1, -1, Batch[Any]((), -1))


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
        note: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._note = note
        self._store = store
        self._reader = reader
        self._pack = pack
        self._held: deque[Entry[T]] = deque()
        self._held_length = 0
        self._asked: tuple[int, int, Batch[T]] = NOTHING_ASKED
        """What was wanted last: after which one, up to which, and what that is."""
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._is_reading = False
        self._is_replaced = False
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
        self.last_at = (await self._reader.events(after_seq=self.last_seq, limit=0)).after_at
        self._stop_listening = self._store.listen(self._hear)
        self._following = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        self._stop_listening()
        self._following.cancel()
        await asyncio.wait([self._following])

    def close(self) -> None:
        """Wake all watchers, for the last time."""
        self.is_closed = True
        self._tell()

    async def after(self, seq: int, *, run_id: RunId | None = None) -> Batch[T]:
        """What follows `seq`, a page of it at most; of one run, if that is wanted."""
        last_seq = self.last_seq
        if seq > last_seq:  # It may be what another process has committed just now.
            page = await self._reader.events(after_seq=seq, limit=1)
            return Batch((), min(seq, page.last_seq), is_gap=seq > page.last_seq)
        if seq == last_seq:
            return Batch((), seq)
        if self._asked[:2] == (seq, last_seq):
            return self._asked[2]  # Most watchers are at the same place.
        if self._held and self._held[0].event.seq <= seq + 1:
            start = seq + 1 - self._held[0].event.seq  # There are no gaps.
            entries = _page(islice(self._held, start, start + PAGE_COUNT))
            self._asked = (seq, last_seq, Batch(entries, entries[-1].event.seq))
            return self._asked[2]
        return await self.read(seq, run_id=run_id)

    async def time_of(self, seq: int) -> Instant | None:
        """Return when the event `seq` was written, or None if there is no such event."""
        known_at = self._known_time_of(seq)
        if known_at is not None or seq == self.last_seq:
            return known_at
        return (await self._reader.events(after_seq=seq, limit=0)).after_at

    def _known_time_of(self, seq: int) -> Instant | None:
        if seq == self.last_seq:
            return self.last_at
        first_seq = self._held[0].event.seq if self._held else self.last_seq + 1
        return self._held[seq - first_seq].event.at if first_seq <= seq < self.last_seq else None

    async def read(
        self,
        seq: int,
        *,
        run_id: RunId | None = None,
        at: Instant | None = None,
        epoch: int | None = None,
        or_oldest: bool = False,
    ) -> Batch[T]:
        """The same from the database: whatever was committed before is in it.

        `at` is when the event `seq` was written, and `epoch` the one in which it was read, if the
        caller has them. If they differ now, there is a gap.
        With `or_oldest` a gap comes with what follows it, from the oldest that is kept.
        """
        page = await self._reader.events(
            after_seq=seq, limit=PAGE_COUNT, length_max=PAGE_LENGTH_MAX, run_id=run_id
        )
        has_moved = epoch not in (None, page.epoch) or at not in (None, page.after_at)
        is_gap = has_moved or not page.pruned_seq <= seq <= page.last_seq
        if is_gap and not or_oldest:
            return Batch((), page.last_seq, is_gap=True, epoch=page.epoch)
        entries = [self._entry(event) for event in page.events]
        upto_seq = entries[-1].event.seq if page.has_more else page.last_seq
        return Batch(entries, upto_seq, is_gap, upto_seq < page.last_seq, page.epoch)

    async def reach(self, epoch: int) -> None:
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
        await is_set_within(changed, timeout_s)

    def _hear(self, events: Sequence[Event]) -> None:
        """What follows at once on what is known is taken as it is; else the database is asked."""
        fresh = [event for event in events if event.seq > self.last_seq]
        seqs = [event.seq for event in fresh]
        for event in events[: len(events) - len(fresh)]:
            if self._known_time_of(event.seq) not in (None, event.at):
                self._is_replaced = True
        if (
            self._is_reading
            or self._is_replaced
            or seqs != list(range(self.last_seq + 1, self.last_seq + 1 + len(seqs)))
        ):
            self._wake.set()
        elif fresh:
            try:
                self._take(fresh)
            except Exception:  # Whoever has committed them is not to blame.
                log.exception("events_not_taken")
                self._wake.set()

    async def _follow(self) -> None:
        while True:  # Ends by cancellation only.
            self._wake.clear()
            try:
                while await self._read_on():
                    continue
            except InfrastructureError as error:  # Watchers wait; nothing is lost.
                log.warning("events_not_read", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # Nobody would begin anew: watchers would wait for ever.
                log.exception("event_feed_broke")
                await asyncio.sleep(POLL_S)
            await is_set_within(self._wake, POLL_S)

    async def _read_on(self) -> bool:
        """Whether there may be more."""
        last_at: Instant | None = None
        self._is_reading = True
        try:
            page = await self._reader.events(
                after_seq=self.last_seq, limit=PAGE_COUNT, length_max=PAGE_LENGTH_MAX
            )
            has_moved = self._has_moved(page)
            is_lost = has_moved or self.last_seq < page.pruned_seq
            if is_lost:
                # Read once here, or each watcher would query it for the ids of its pings.
                last_at = (await self._reader.events(after_seq=page.last_seq, limit=0)).after_at
        finally:
            self._is_reading = False
        if is_lost:
            # Another database than before, or long asleep: nothing that is held is of use.
            self._held.clear()
            self._held_length = 0
            self._asked = NOTHING_ASKED
            self.last_seq, self.epoch, self.last_at = page.last_seq, page.epoch, last_at
            self.history_count += has_moved
            self._is_replaced = False
            self._tell()
            return False
        if page.events:
            self._take(page.events)
        return page.has_more

    def _has_moved(self, page: Page) -> bool:
        """Return whether the database has another history than the one read so far."""
        if self._is_replaced or page.epoch != self.epoch or page.last_seq < self.last_seq:
            return True
        # An event that is pruned cannot be compared.
        is_comparable = self.last_seq > page.pruned_seq and self.last_at is not None
        return is_comparable and page.after_at != self.last_at

    def _take(self, events: Sequence[Event]) -> None:
        # All that can go wrong comes first: half of them taken would be taken twice.
        entries = [self._entry(event) for event in events]
        self._held.extend(entries)
        self._held_length += sum([len(one.packed) for one in entries])
        while len(self._held) > HELD_COUNT_MAX or self._held_length > HELD_LENGTH_MAX:
            self._held_length -= len(self._held.popleft().packed)
        self.last_seq, self.last_at = events[-1].seq, events[-1].at
        self._tell()
        for event in events:
            try:
                self._note(event)
            except Exception:  # It is not counted, and all others are.
                log.exception("event_not_noted", extra={"seq": event.seq})

    def _entry(self, event: Event) -> Entry[T]:
        return Entry(event._replace(payload=""), self._pack(event))

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _page(entries: Iterable[Entry[T]]) -> list[Entry[T]]:
    """As many of them as one may be given at a time, one at least."""
    page: list[Entry[T]] = []
    length = 0
    for entry in entries:
        length += len(entry.packed)
        if page and length > PAGE_LENGTH_MAX:
            break
        page.append(entry)
    return page
