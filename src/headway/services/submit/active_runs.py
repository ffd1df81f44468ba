"""Find the active run of a key on any instance: message it, stop it, or wait for its end.

`ActiveRuns` has the methods of `headway.lanes.ActiveRuns`. Its registry is the database, so callers
do not register runs, and an outdated `finally` block cannot remove a newer entry.
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
    """The outcome of `queue_message`.

    It is truthy if the message was queued; otherwise it holds the reason for the refusal.
    """

    refusal: Refusal | None = None

    def __bool__(self) -> bool:
        return self.refusal is None


class ActiveRuns:
    """Finds, messages and stops the active run of a key. Available as `Headway.active`."""

    def __init__(
        self, store: Store, runs: RunReader, events: EventReader, watcher: RunWatcher
    ) -> None:
        self._store = store
        self._runs = runs
        self._events = events
        self._watcher = watcher

    async def get(self, key: str) -> RunHandle | None:
        """Return the run of the key that has started and not ended, or None. Ignore queued runs."""
        active = RunFilter(statuses=_ACTIVE, key=Key(check_name(key, field="key")))
        records = [record async for record in self._runs.list_runs(active, limit=1)]
        if not records:
            return None
        return RunHandle(
            records[0].run.id,
            store=self._store,
            runs=self._runs,
            events=self._events,
            watcher=self._watcher,
        )

    async def queue_message(self, key: str, message: Any, *, by: str = "") -> Queueing:
        """Send a message to the active run of the key.

        The result is truthy if the message was queued; otherwise it holds the reason for the
        refusal.
        """
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

        Return the outcome for each run, the active run last. The result is empty if the key has no
        runs.
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
        """Cancel the key's queued runs, then its active run.

        Return False if the key has no run, or if none of its runs accepts the cancel.
        """
        return any(run.result in _CANCEL_ACCEPTED for run in await self.stop(key, by=by))

    async def wait_for_end(self, key: str, timeout_s: float = WAIT_S) -> bool:
        """Wait until the key has no active run. Return False if that takes more than `timeout_s`.

        A `timeout_s` below 100 ms counts as 100 ms.
        """
        try:
            async with asyncio.timeout(max(timeout_s, WAIT_S_MIN)):
                while (run := await self.get(key)) is not None:
                    await run.wait_for_end()
        except TimeoutError:
            return False
        return True
