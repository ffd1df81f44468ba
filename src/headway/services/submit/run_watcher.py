"""Wake callers that wait for changes of runs.

A caller opens a waiter for a run and repeats: `begin_read`, read the run, `note_seen` with the
`run_seq` that was read, `wait`. Each event of a run increments its `run_seq`, so a caller that has
seen a `run_seq` has seen every change up to it. Commits that this process observes, its own or
through a notification of the database, notify the waiters of the run at once. Waiters that would
miss a commit of another process are notified by a poll.

All waiters share one listener and one poll: 10,000 waiters cost one query per second, and a commit
costs time only for the waiters of its own run. The poll compares the current `run_seq` with the one
seen, so it does not wake callers without a reason. If the poll fails, it wakes all waiters, and
each caller gets the error from its own read.

A change may be committed while a caller reads. Such a notification arrives between `begin_read` and
`note_seen`; it is stored and compared with the `run_seq` that was read. If the read did not contain
the change, the next `wait` returns at once.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from headway.core.errors import InfrastructureError
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.log import event_log
from headway.ports.run_reader import RunReader
from headway.ports.store import Store

POLL_S: Final = 1.0

log = event_log(__name__)


class Waiter:
    """The state of one caller that waits for changes of a run."""

    __slots__ = ("_changed", "_notified_seq", "_seen_seq")

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._seen_seq: int | None = None
        self._notified_seq = 0

    def begin_read(self) -> None:
        """Call before each read, so that a change during the read is not missed."""
        self._changed.clear()
        self._seen_seq, self._notified_seq = None, 0

    def note_seen(self, run_seq: int) -> None:
        """Record the `run_seq` that was read. A newer one may have been notified meanwhile."""
        self._seen_seq = run_seq
        if self._notified_seq > run_seq:
            self._changed.set()

    async def wait(self) -> None:
        """Wait until the run may have changed since the last read."""
        await self._changed.wait()

    def notify(self, run_seq: int | None) -> None:
        """Wake the caller if `run_seq` is new to it. None means that it is unknown."""
        if run_seq is None or self._seen_seq not in (None, run_seq):
            self._changed.set()
        elif self._seen_seq is None:
            self._notified_seq = max(self._notified_seq, run_seq)


class RunWatcher:
    """The waiters of all run handles of a program. Listens and polls only while there are any."""

    def __init__(self, store: Store, runs: RunReader) -> None:
        self._store = store
        self._runs = runs
        self._waiters: dict[RunId, list[Waiter]] = {}

    @contextmanager
    def open_waiter(self, run_id: RunId) -> Iterator[Waiter]:
        """Open a waiter for changes of a run inside the block."""
        if not self._waiters:
            self._stop_listening = self._store.listen(self._on_events)
            self._poll_task = asyncio.create_task(self._poll())
        waiter = Waiter()
        self._waiters.setdefault(run_id, []).append(waiter)
        try:
            yield waiter
        finally:
            self._waiters[run_id].remove(waiter)
            if not self._waiters[run_id]:
                del self._waiters[run_id]
            if not self._waiters:
                self._stop_listening()
                self._poll_task.cancel()

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.run_id is not None:
                self._notify(event.run_id, event.run_seq)

    async def _poll(self) -> None:
        """Read the `run_seq` of all awaited runs, because another process may execute them."""
        while True:  # Until the last waiter is closed, which cancels this task.
            await asyncio.sleep(POLL_S)
            run_ids, seqs = list(self._waiters), dict[RunId, int]()
            try:
                seqs |= await self._runs.run_seqs(run_ids)
            except InfrastructureError as error:  # Each caller gets the error from its own read.
                log.debug("run_poll_failed", extra={"reason": str(error)})
            except Exception:  # A bug in headway. The callers are woken and read for themselves.
                log.exception("run_poll_crashed")
            self._notify_all(run_ids, seqs)

    def _notify_all(self, run_ids: Sequence[RunId], seqs: Mapping[RunId, int]) -> None:
        for run_id in run_ids:
            self._notify(run_id, seqs.get(run_id))

    def _notify(self, run_id: RunId, run_seq: int | None) -> None:
        for waiter in self._waiters.get(run_id, ()):
            waiter.notify(run_seq)
