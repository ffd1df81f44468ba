"""Which run of a key is active, on whichever instance: to speak to it, stop it, or await its end.

The words are those of `headway.lanes.ActiveRuns`; the registry is the database, so there is nothing
to register and nothing that an old `finally` could remove.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headway.core.command.run.cancel import GRACE_S, CancelResult, StopKey, StoppedRun
from headway.core.document import check_name, parse_enum
from headway.core.ids import Key
from headway.core.run.run import FilesOnCancel
from headway.core.run.status import RunStatus
from headway.core.run.window import Refusal
from headway.ports.event_reader import EventReader
from headway.ports.run_reader import RunFilter, RunReader
from headway.ports.store import Store
from headway.services.end_children import end_children_after_cancel
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.run_watcher import RunWatcher

WAIT_S: Final = 15.0
WAIT_S_MIN: Final = 0.1
_CANCEL_ACCEPTED: Final = (CancelResult.CANCELED, CancelResult.REQUESTED)
_ACTIVE: Final = frozenset({RunStatus.RUNNING, RunStatus.CANCELLING})


class Queueing(NamedTuple):
    """True if the message was queued; else it says why not."""

    refusal: Refusal | None = None

    def __bool__(self) -> bool:
        return self.refusal is None


class ActiveRuns:
    def __init__(
        self, store: Store, runs: RunReader, events: EventReader, news: RunWatcher
    ) -> None:
        self._store = store
        self._runs = runs
        self._events = events
        self._watcher = news

    async def get(self, key: str) -> RunHandle | None:
        """The run of the key that has begun and is not over; one that is queued is not active."""
        wanted = RunFilter(statuses=_ACTIVE, key=Key(check_name(key, field="key")))
        found = [record async for record in self._runs.list_runs(wanted, limit=1)]
        if not found:
            return None
        return RunHandle(
            found[0].run.id,
            store=self._store,
            runs=self._runs,
            events=self._events,
            watcher=self._watcher,
        )

    async def queue_message(self, key: str, message: Any, *, by: str = "") -> Queueing:
        """Give the message to the active run, if its loop takes one now; a refusal is an answer."""
        run = await self.get(key)
        if run is None:
            return Queueing(Refusal.NO_ACTIVE_RUN)
        return Queueing(await run.steer(message, by=by))

    async def stop(
        self,
        key: str,
        *,
        files: FilesOnCancel | str = FilesOnCancel.KEEP,
        reason: str = "",
        by: str = "",
        grace_s: float = GRACE_S,
    ) -> Sequence[StoppedRun]:
        """Cancel all runs of the key, so that none of them starts when another one ends.

        Return the outcome for each, the active run last. Empty if the key has no runs.
        """
        stopped = await self._store.apply(
            StopKey(
                key=Key(check_name(key, field="key")),
                files=parse_enum(FilesOnCancel, files, field="files"),
                reason=reason,
                by=by,
                grace_s=grace_s,
            )
        )
        if stopped:  # Only the active run, which is the last, can have children.
            await end_children_after_cancel(self._store, self._runs, *stopped[-1])
        return stopped

    async def abort(self, key: str, *, by: str = "") -> bool:
        """Stop the key: cancel its queued runs, then the active one.

        Return False if the key had no run, or the loop of the active run has ended.
        """
        return any(run.result in _CANCEL_ACCEPTED for run in await self.stop(key, by=by))

    async def wait_for_end(self, key: str, timeout_s: float = WAIT_S) -> bool:
        """Whether the key has come to have no active run, within at least 100 ms."""
        try:
            async with asyncio.timeout(max(timeout_s, WAIT_S_MIN)):
                while (run := await self.get(key)) is not None:
                    await run.wait_for_end()
        except TimeoutError:
            return False
        return True
