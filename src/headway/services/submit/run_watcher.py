"""Wakes whoever waits for news of a run: at once when this process hears of a commit, else soon.

All who wait share one ear and one look: ten thousand of them cost one question a second, and a
commit costs those whom it concerns.
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
    """A run of which somebody wants to know more than it has seen."""

    __slots__ = ("_changed", "_notified_seq", "_seen_seq")

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._seen_seq: int | None = None
        self._notified_seq = 0

    def begin_read(self) -> None:
        """To be said before each look of one's own, or what happens during it would be missed."""
        self._changed.clear()
        self._seen_seq, self._notified_seq = None, 0

    def note_seen(self, run_seq: int) -> None:
        """What came of the look; perhaps more has happened since."""
        self._seen_seq = run_seq
        if self._notified_seq > run_seq:
            self._changed.set()

    async def wait(self) -> None:
        """Until it is worth to look again."""
        await self._changed.wait()

    def notify(self, run_seq: int | None) -> None:
        """None: nobody knows."""
        if run_seq is None or self._seen_seq not in (None, run_seq):
            self._changed.set()
        elif self._seen_seq is None:
            self._notified_seq = max(self._notified_seq, run_seq)


class RunWatcher:
    """One for all handles of a program. Listens and looks only while somebody waits."""

    def __init__(self, store: Store, runs: RunReader) -> None:
        self._store = store
        self._runs = runs
        self._waiters: dict[RunId, list[Waiter]] = {}

    @contextmanager
    def open_waiter(self, run_id: RunId) -> Iterator[Waiter]:
        if not self._waiters:
            self._stop_listening = self._store.listen(self._on_events)
            self._poll_task = asyncio.create_task(self._poll())
        one = Waiter()
        self._waiters.setdefault(run_id, []).append(one)
        try:
            yield one
        finally:
            self._waiters[run_id].remove(one)
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
        """Another process may be executing them."""
        while True:  # Until nobody waits.
            await asyncio.sleep(POLL_S)
            asked, found = list(self._waiters), dict[RunId, int]()
            try:
                found |= await self._runs.run_seqs(asked)
            except InfrastructureError as error:  # Each finds out for itself what it means to it.
                log.debug("look_failed", extra={"reason": str(error)})
            except Exception:  # Our own mistake: they look for themselves.
                log.exception("look_broke")
            self._notify_all(asked, found)

    def _notify_all(self, asked: Sequence[RunId], found: Mapping[RunId, int]) -> None:
        for run_id in asked:
            self._notify(run_id, found.get(run_id))

    def _notify(self, run_id: RunId, run_seq: int | None) -> None:
        for one in self._waiters.get(run_id, ()):
            one.notify(run_seq)
