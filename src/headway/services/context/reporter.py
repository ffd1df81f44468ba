"""Write the progress, log lines and events of a job, at most ten times per second.

The first report is written at once. Reports within the next tenth of a second are buffered and
written together. Only the latest progress is written, adjacent log lines become one event, and the
job's own events are written one by one. Log lines and events keep their order. When the buffer is
full, the job waits.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Final

from headway.core.command.run.report import AppendEvents, JobEvent, SaveProgress, make_log_event
from headway.core.document import Document
from headway.core.errors import InfrastructureError, StoreClosed
from headway.core.run.events import EventType
from headway.core.run.run import Claim
from headway.ports.store import Store
from headway.services.retrying import retry_until_available

WRITE_INTERVAL_S: Final = 0.1
PENDING_WEIGHT_MAX: Final = 256 << 10
"""The size of the buffer in characters. A longer log line or event is written alone."""
EVENT_WEIGHT: Final = 500
"""How many characters an event counts in addition to its payload, unless it is a log line."""


class Reporter:
    """Buffers and writes the progress, log lines and events of one execution.

    When an awaited method returns, its report is written, or buffered for the next write.
    """

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._progress: Document | None = None
        self._pending: list[JobEvent] = []
        self._weight = 0
        self._written_at_s = float("-inf")
        self._timer: asyncio.Task[None] | None = None
        self._write_lock = asyncio.Lock()  # Serializes writes, so that they keep their order.

    async def set_progress(self, progress: Document) -> None:
        """Replace the progress of the run. Only the latest progress is written."""
        self._progress = progress
        await self._write_or_schedule()

    async def append(self, event: JobEvent) -> None:
        """Add a log line or an event to the buffer. Wait while the buffer is full."""
        while self._pending and self._weight + _weight(event) > PENDING_WEIGHT_MAX:
            await self._wait_until_due()
            await retry_until_available(self._write)
        self._pending.append(event)
        self._weight += _weight(event)
        await self._write_or_schedule()

    async def flush(self) -> None:
        """Write the buffered events, so that the caller's next write comes after them."""
        await retry_until_available(self._write_events)

    async def finish(self) -> None:
        """Write everything that is buffered, at the end of the execution."""
        self._stop_timer()
        await retry_until_available(self._write)

    def discard(self) -> None:
        """Drop everything that is buffered, because the claim is lost."""
        self._stop_timer()
        self._take_pending()
        self._progress = None

    @property
    def _wait_s(self) -> float:
        return self._written_at_s + WRITE_INTERVAL_S - time.monotonic()

    async def _write_or_schedule(self) -> None:
        if self._wait_s <= 0:
            await retry_until_available(self._write)
        elif self._timer is None:
            self._timer = asyncio.create_task(self._write_later())

    async def _wait_until_due(self) -> None:
        while self._wait_s > 0:  # noqa: ASYNC110  # Another write may move the time in between.
            await asyncio.sleep(self._wait_s)

    async def _write_later(self) -> None:
        await self._wait_until_due()
        self._timer = None  # From here on `_stop_timer` must not cancel the write.
        with suppress(StoreClosed):
            await retry_until_available(self._write)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _write(self) -> None:
        await self._write_events()
        async with self._write_lock:
            if self._progress is None:
                return
            progress, self._progress = self._progress, None
            self._written_at_s = time.monotonic()
            try:
                await self._store.apply(SaveProgress(self._claim, progress))
            except InfrastructureError:
                if self._progress is None:  # Otherwise there is newer progress.
                    self._progress = progress
                raise

    async def _write_events(self) -> None:
        async with self._write_lock:
            if not self._pending:
                return
            events = self._take_pending()
            self._written_at_s = time.monotonic()
            try:
                await self._store.apply(AppendEvents(self._claim, tuple(_merge_log_lines(events))))
            except InfrastructureError:
                self._pending[:0] = events
                self._weight += sum(map(_weight, events))
                raise

    def _take_pending(self) -> list[JobEvent]:
        events, self._pending, self._weight = self._pending, [], 0
        return events


def _weight(event: JobEvent) -> int:
    return len(event.payload) + (0 if event.type == EventType.LOG else EVENT_WEIGHT)


def _merge_log_lines(events: Iterable[JobEvent]) -> Iterator[JobEvent]:
    """Yield the events in order, with each sequence of adjacent log lines as one event."""
    for kind, group in groupby(events, key=lambda event: event.type):
        if kind == EventType.LOG:
            yield make_log_event([line.payload for line in group])
        else:
            yield from group
