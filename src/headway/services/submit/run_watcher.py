"""Wait for the end of a run (`wait_for_end`), or for its next change (`open_waiter`).

Handles of runs and jobs that wait for their children use the same watcher, one per process. A
commit wakes the waiters of its run at once if this process made the commit, or if the database
notifies this process of it. A poll covers all other commits.

All waiters share one listener and one poll: 10,000 waiters cost one query per second, and a commit
costs time only for the waiters of its own run. A caller that waits for the end of a run is woken
only when the run ends, however many events precede its end. If the poll fails, it wakes all
waiters, and each caller gets the error from its own read.

A caller that follows the changes of a run repeats: `begin_read`, read the run, `note_seen` with the
`run_seq` that was read, `wait`. Each event of a run increments its `run_seq`, so a caller that has
seen a `run_seq` has seen every change up to it. A change may be committed while the caller reads.
The notification of such a change arrives between `begin_read` and `note_seen`. It is stored and
compared with the `run_seq` that was read. If the read did not contain the change, the next `wait`
returns at once.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import Final, NamedTuple

from headway.core.errors import InfrastructureError, RunNotFound
from headway.core.ids import RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import RunRecord
from headway.core.run.transitions import TERMINAL
from headway.log import event_log
from headway.ports.run_reader import RunReader, WatchedRun
from headway.ports.store import Store

POLL_S: Final = 1.0

log = event_log(__name__)


class Change(NamedTuple):
    """A change of a run, with as much detail as the watcher has."""

    run_seq: int | None
    """The newest `run_seq` of the run, or None if the `run_seq` is unknown."""
    may_have_ended: bool


UNKNOWN_CHANGE: Final = Change(None, may_have_ended=True)


class EndWaiter:
    """The state of one caller that waits for the end of a run."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    def notify(self, change: Change) -> None:
        if change.may_have_ended:
            self.ended.set()


class ChangeWaiter:
    """The state of one caller that waits for changes of a run."""

    __slots__ = ("_changed", "_notified_seq", "_seen_seq")

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._seen_seq: int | None = None
        self._notified_seq = 0

    def begin_read(self) -> None:
        """Prepare for a read of the run. Without this call a change during the read is missed."""
        self._changed.clear()
        self._seen_seq, self._notified_seq = None, 0

    def note_seen(self, run_seq: int) -> None:
        """Record the `run_seq` that was read.

        If the run has changed since then, the next `wait` returns at once.
        """
        self._seen_seq = run_seq
        if self._notified_seq > run_seq:
            self._changed.set()

    async def wait(self) -> None:
        """Wait until the run may have changed since the last read."""
        await self._changed.wait()

    def notify(self, change: Change) -> None:
        """Wake the caller unless its last read includes the change."""
        run_seq = change.run_seq
        if run_seq is None or self._seen_seq not in (None, run_seq):
            self._changed.set()
        elif self._seen_seq is None:
            self._notified_seq = max(self._notified_seq, run_seq)


class RunWatcher:
    """Wakes the waiters of this process. It listens and polls only while there are waiters."""

    def __init__(self, store: Store, runs: RunReader) -> None:
        self._store = store
        self._runs = runs
        self._waiters: dict[RunId, list[EndWaiter | ChangeWaiter]] = {}

    async def wait_for_end(self, run_id: RunId) -> RunRecord:
        """Wait until the run has ended, without a time limit, and return its record.

        Raise RunNotFound if the run does not exist.
        """
        waiter = EndWaiter()
        with self._add(run_id, waiter):
            while True:  # Until the run ends.
                waiter.ended.clear()  # Before the read, so that an end during it is not missed.
                record = await self._runs.run(run_id)
                if record is None:
                    raise RunNotFound(run_id)
                if record.run.status in TERMINAL:
                    return record
                await waiter.ended.wait()

    @contextmanager
    def open_waiter(self, run_id: RunId) -> Iterator[ChangeWaiter]:
        """Open a waiter for changes of a run. It is closed when the `with` block ends."""
        waiter = ChangeWaiter()
        with self._add(run_id, waiter):
            yield waiter

    @contextmanager
    def _add(self, run_id: RunId, waiter: EndWaiter | ChangeWaiter) -> Iterator[None]:
        if not self._waiters:
            self._stop_listening = self._store.listen(self._on_events)
            self._poll_task = asyncio.create_task(self._poll(), context=Context())
        self._waiters.setdefault(run_id, []).append(waiter)
        try:
            yield
        finally:
            self._waiters[run_id].remove(waiter)
            if not self._waiters[run_id]:
                del self._waiters[run_id]
            if not self._waiters:
                self._stop_listening()
                self._poll_task.cancel()

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.run_id is not None and event.run_id in self._waiters:
                self._notify(event.run_id, Change(event.run_seq, may_have_ended=_is_end(event)))

    async def _poll(self) -> None:
        """Read the state of all awaited runs, because another process may execute them."""
        while True:  # Until the last waiter is closed, which cancels this task.
            await asyncio.sleep(POLL_S)
            run_ids, runs = list(self._waiters), dict[RunId, WatchedRun]()
            try:
                runs |= await self._runs.watched_runs(run_ids)
            except InfrastructureError as error:  # Each caller gets the error from its own read.
                log.debug("run_poll_failed", extra={"reason": str(error)})
            except Exception:  # A bug in headway. The callers are woken and read for themselves.
                log.exception("run_poll_crashed")
            self._notify_all(run_ids, runs)

    def _notify_all(self, run_ids: Sequence[RunId], runs: Mapping[RunId, WatchedRun]) -> None:
        for run_id in run_ids:
            change = UNKNOWN_CHANGE
            if run_id in runs:
                run_seq, status = runs[run_id]
                change = Change(run_seq, may_have_ended=status in TERMINAL)
            self._notify(run_id, change)

    def _notify(self, run_id: RunId, change: Change) -> None:
        for waiter in self._waiters.get(run_id, ()):
            waiter.notify(change)


def _is_end(event: Event) -> bool:
    return event.type == EventType.STATE_CHANGED and json.loads(event.payload)["to"] in TERMINAL
