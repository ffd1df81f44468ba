"""What a job says: as often as it likes, and ten times a second it is written down.

The first word is written at once. What follows within a tenth of a second waits, and is written
together: the last progress, neighbouring log lines as one event, and the job's own events one by
one, all in the order in which they were said. Who says more than may wait is kept waiting itself.
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
"""In characters; one that is longer goes alone."""
EVENT_WEIGHT: Final = 500
"""What an event counts besides its payload."""


class Reporter:
    """Of one execution. What the job awaits of it is either written, or waits for its time."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self._progress: Document | None = None
        self._pending: list[JobEvent] = []
        self._weight = 0
        self._written_at_s = float("-inf")
        self._timer: asyncio.Task[None] | None = None
        self._write_lock = asyncio.Lock()  # One after the other, or they could overtake each other.

    async def set_progress(self, figures: Document) -> None:
        """Of what comes too soon, only the last one counts."""
        self._progress = figures
        await self._write_or_schedule()

    async def append(self, said: JobEvent) -> None:
        """A log line, or an event."""
        while self._pending and self._weight + _weight(said) > PENDING_WEIGHT_MAX:
            await self._wait_until_due()
            await retry_until_available(self._write)
        self._pending.append(said)
        self._weight += _weight(said)
        await self._write_or_schedule()

    async def flush(self) -> None:
        """Write what was said, so that what the caller writes next stands behind it."""
        await retry_until_available(self._write_events)

    async def finish(self) -> None:
        """Write all that waits; nothing follows."""
        self._stop_timer()
        await retry_until_available(self._write)

    def discard(self) -> None:
        """Nobody listens any more."""
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
        while self._wait_s > 0:  # noqa: ASYNC110 - Somebody else may have written meanwhile.
            await asyncio.sleep(self._wait_s)

    async def _write_later(self) -> None:
        await self._wait_until_due()
        self._timer = None  # What is being written is not broken off.
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
                if self._progress is None:  # Else a newer one has come meanwhile.
                    self._progress = progress
                raise

    async def _write_events(self) -> None:
        async with self._write_lock:
            if not self._pending:
                return
            said = self._take_pending()
            self._written_at_s = time.monotonic()
            try:
                await self._store.apply(AppendEvents(self._claim, tuple(_merge_log_lines(said))))
            except InfrastructureError:
                self._pending[:0] = said
                self._weight += sum(map(_weight, said))
                raise

    def _take_pending(self) -> list[JobEvent]:
        said, self._pending, self._weight = self._pending, [], 0
        return said


def _weight(said: JobEvent) -> int:
    return len(said.payload) + (0 if said.type == EventType.LOG else EVENT_WEIGHT)


def _merge_log_lines(said: Iterable[JobEvent]) -> Iterator[JobEvent]:
    """Each as it is, but for log lines: those that follow each other are one event."""
    for kind, group in groupby(said, key=lambda one: one.type):
        if kind == EventType.LOG:
            yield make_log_event([line.payload for line in group])
        else:
            yield from group
