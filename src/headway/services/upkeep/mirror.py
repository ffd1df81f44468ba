"""Mirror the latest state of every run to a file, for people and programs that watch files.

The mirror follows the event stream, so it includes the changes of other processes. It stores its
position in the stream, so it also catches up with changes that were made while it was not running.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from headway.core.errors import StoreClosed
from headway.core.ids import Instant, RunId
from headway.core.run.events import Event
from headway.core.run.run import RUN_DOCUMENTS, RunRecord
from headway.core.secret import redact
from headway.log import event_log
from headway.ports.event_reader import EventReader
from headway.ports.mirror_files import MirrorFiles
from headway.ports.run_reader import RunFilter, RunReader
from headway.ports.store import Store
from headway.services.background_tasks import BackgroundTasks, run_round
from headway.services.blocking_calls import run_in_thread
from headway.services.retrying import wait_until_set

WRITE_INTERVAL_S: Final = 0.25
"""The minimum time between two writes of a run that changes continuously."""
POLL_S: Final = 1.0
PAGE_SIZE: Final = 500
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

log = event_log(__name__)


class Mirror:
    """Mirrors runs to files inside `async with mirror.run()`. A full disk affects no run."""

    def __init__(
        self, store: Store, runs: RunReader, events: EventReader, folder: MirrorFiles
    ) -> None:
        self._store = store
        self._runs = runs
        self._events = events
        self._folder = folder
        self._wakeup = asyncio.Event()
        self._seq = 0
        self._at: Instant | None = None
        """The time at which the event `_seq` was written, or None if it is unknown."""
        self._has_position = False
        self._epoch: int | None = None
        self._unwritten: set[RunId] = set()
        """Runs whose files could not be written, to be retried."""
        self._is_failing = False

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Mirror runs to files inside the `async with` block. Write the last changes at its end."""
        stop_listening = self._store.listen(self._on_events)
        try:
            async with BackgroundTasks() as background:
                background.start_loop(self._follow())
                yield
        finally:
            stop_listening()
            with suppress(StoreClosed):
                await run_round("mirror", self._catch_up)

    def _on_events(self, _: Sequence[Event]) -> None:
        self._wakeup.set()

    async def _follow(self) -> None:
        while True:  # Until it is canceled.
            self._wakeup.clear()
            await run_round("mirror", self._catch_up)
            await asyncio.sleep(WRITE_INTERVAL_S)
            await wait_until_set(self._wakeup, POLL_S)  # Polls, because other processes write too.

    async def _catch_up(self) -> None:
        """Write all changes since the stored position. Log a disk error."""
        try:
            await self._write_changes()
        except OSError as error:
            self._log_failure(error)

    async def _write_changes(self) -> None:
        if not self._has_position:
            self._seq, self._at = await run_in_thread(self._folder.read_position)
            self._has_position = True
        await self._write(list(self._unwritten))
        while True:  # Until the end of the stream is reached.
            page = await self._events.events(after_seq=self._seq, limit=PAGE_SIZE)
            if self._epoch not in (None, page.epoch):  # After a failover, commits may be missing.
                await self._write_all()
                self._seq, self._epoch = min(self._seq, page.last_seq), page.epoch
                self._at = None
                continue
            self._epoch = page.epoch
            if self._seq > page.last_seq:  # The position is of another database.
                self._seq, self._at = 0, None
                continue
            if self._seq < page.pruned_seq:  # Events are missing, so write all stored runs.
                await self._write_all()
                self._seq, self._at = page.pruned_seq, None
                continue
            is_pruned = self._seq == page.pruned_seq
            if not is_pruned and self._at not in (None, page.after_seq_written_at):
                # A backup was restored, and other events were written under the same numbers.
                await self._write_all()
                self._seq, self._at = page.last_seq, None
                continue
            if not page.events:
                return
            await self._write({event.run_id for event in page.events if event.run_id is not None})
            self._seq, self._at = page.events[-1].seq, page.events[-1].at
            if not self._unwritten:
                await run_in_thread(self._folder.write_position, self._seq, self._at)

    async def _write_all(self) -> None:
        async for record in self._runs.list_runs(RunFilter(), limit=sys.maxsize):
            await self._write_record(record)

    async def _write(self, run_ids: Iterable[RunId]) -> None:
        for run_id in run_ids:
            record = await self._runs.run(run_id)
            if record is None:
                self._unwritten.discard(run_id)  # The run was pruned.
            else:
                await self._write_record(record)

    async def _write_record(self, record: RunRecord) -> None:
        run_id = record.run.id
        try:
            await run_in_thread(self._folder.write, run_id, _to_json(record))
        except OSError as error:
            self._unwritten.add(run_id)
            self._log_failure(error)
        else:
            self._unwritten.discard(run_id)
            if self._is_failing and not self._unwritten:
                self._is_failing = False
                log.info("mirror_resumed")

    def _log_failure(self, error: OSError) -> None:
        if not self._is_failing:  # Log once, and again only after a success.
            log.error("mirror_write_failed", extra={"reason": str(error)})
        self._is_failing = True


def _to_json(record: RunRecord) -> str:
    run = record.run
    fields: dict[str, Any] = {
        "id": run.id,
        "key": run.key,
        "job": run.job,
        "lane": run.lane,
        "mode": run.mode.value,
        "status": run.status.value,
        "attempt": run.attempt,
        "generation": run.generation,
        "continued_from": run.continued_from,
        "queued_at": _to_iso(run.queued_at),
        "started_at": _to_iso(run.started_at),
        "ended_at": _to_iso(run.ended_at),
    }
    for name in RUN_DOCUMENTS:
        document: str | None = getattr(record, name)
        fields[name] = None if document is None else json.loads(redact(document))
    return json.dumps(fields, ensure_ascii=False, indent=2) + "\n"


def _to_iso(instant: Instant | None) -> str | None:
    if instant is None:
        return None
    return (EPOCH + timedelta(microseconds=instant)).isoformat().replace("+00:00", "Z")
