"""The newest events, read once for all who watch, however many they are.

Each watcher keeps only its place. Who falls behind what is held in memory reads on from the
database, and who asks for what was pruned is told so: a slow watcher costs nobody anything.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from types import TracebackType
from typing import Final, Generic, NamedTuple, Self, TypeVar

from headway.core.errors import InfrastructureError
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.log import event_log
from headway.ports.event_reader import EventReader
from headway.ports.store import Store
from headway.services.patience import is_set_within

POLL_S: Final = 1.0
PAGE_COUNT: Final = 500
HELD_COUNT_MAX: Final = 4_000
HELD_BYTE_COUNT_MAX: Final = 32 << 20

T = TypeVar("T")
log = event_log(__name__)


class Entry(NamedTuple, Generic[T]):
    event: Event
    packed: T


class Batch(NamedTuple, Generic[T]):
    entries: Sequence[Entry[T]]
    upto_seq: int
    """Everything up to here was looked at: where the next look begins."""
    is_gap: bool = False
    """What was asked for is not there: take a snapshot, and go on from `upto_seq`."""


class EventFeed(Generic[T]):
    """Works inside `async with`. `pack` is done once for each event, for all watchers."""

    def __init__(self, store: Store, reader: EventReader, *, pack: Callable[[Event], T]) -> None:
        self._store = store
        self._reader = reader
        self._pack = pack
        self._held: deque[Entry[T]] = deque()
        self._held_byte_count = 0
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self.last_seq = 0
        self.is_closed = False

    async def __aenter__(self) -> Self:
        page = await self._reader.events(after_seq=0, limit=1)
        self.last_seq = page.last_seq
        self._stop_listening = self._store.listen(lambda _: self._wake.set())
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
        if self._held and self._held[0].event.seq <= seq + 1:
            start = seq + 1 - self._held[0].event.seq  # There are no gaps.
            entries = list(islice(self._held, start, start + PAGE_COUNT))
            return Batch(entries, entries[-1].event.seq)
        return await self._read(seq, run_id)

    async def _read(self, seq: int, run_id: RunId | None) -> Batch[T]:
        page = await self._reader.events(after_seq=seq, limit=PAGE_COUNT, run_id=run_id)
        if seq < page.pruned_seq:
            return Batch((), page.last_seq, is_gap=True)
        entries = [Entry(event, self._pack(event)) for event in page.events]
        is_whole = len(entries) < PAGE_COUNT
        return Batch(entries, page.last_seq if is_whole else entries[-1].event.seq)

    async def wait(self, seq: int, *, timeout_s: float) -> None:
        """Until there is more than `seq`, or the feed is closed, or the time is over."""
        changed = self._changed
        if self.last_seq > seq or self.is_closed:
            return
        await is_set_within(changed, timeout_s)

    async def _follow(self) -> None:
        while True:  # Ends by cancellation only.
            self._wake.clear()
            try:
                while await self._read_on() == PAGE_COUNT:
                    continue
            except InfrastructureError as error:  # Watchers wait; nothing is lost.
                log.warning("events_not_read", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # Nobody would begin anew: watchers would wait for ever.
                log.exception("event_feed_broke")
                await asyncio.sleep(POLL_S)
            await is_set_within(self._wake, POLL_S)

    async def _read_on(self) -> int:
        page = await self._reader.events(after_seq=self.last_seq, limit=PAGE_COUNT)
        if page.last_seq < self.last_seq or self.last_seq < page.pruned_seq:
            # Another database than before, or long asleep: nothing that is held is of use.
            self._held.clear()
            self._held_byte_count = 0
            self.last_seq = page.last_seq
            self._tell()
            return 0
        for event in page.events:
            self._held.append(Entry(event, self._pack(event)))
            self._held_byte_count += len(event.payload)
        while len(self._held) > HELD_COUNT_MAX or self._held_byte_count > HELD_BYTE_COUNT_MAX:
            self._held_byte_count -= len(self._held.popleft().event.payload)
        if page.events:
            self.last_seq = page.events[-1].seq
            self._tell()
        return len(page.events)

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
