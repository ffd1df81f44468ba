"""Retention: what is over and old enough goes, a few rows at a time, beside the work.

Several instances may do so at once: each command looks again, on locked rows.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from headway.core.command.command import Command
from headway.core.command.prune import CountPrunable, ForgetSubmissions, PruneEvents, PruneRuns
from headway.core.command.worker import ForgetWorkers
from headway.core.duration import check_seconds
from headway.core.ids import Instant, RunId, later
from headway.core.run.transitions import TERMINAL
from headway.core.worker.worker import KEPT_S as WORKERS_KEPT_S
from headway.ports.event_reader import EventReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.ports.worker_reader import WorkerReader

T = TypeVar("T")
DAY_S: Final = 86_400.0
BATCH_COUNT: Final = 500
BATCHES_MAX: Final = 20
"""Of each kind in one round: what is left over waits for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long what is over is kept."""

    runs_s: float = 30 * DAY_S
    events_s: float = 30 * DAY_S
    idempotency_keys_s: float = 7 * DAY_S
    workers_s: float = WORKERS_KEPT_S
    """Of workers: since they were last heard of."""

    def __post_init__(self) -> None:
        for place in ("runs_s", "events_s", "idempotency_keys_s", "workers_s"):
            check_seconds(getattr(self, place), place=f"retention.{place}")


class Removed(NamedTuple):
    """How much of each kind."""

    run_count: int
    event_count: int
    idempotency_key_count: int
    worker_count: int


class _OldRuns(NamedTuple):
    ids: tuple[RunId, ...]
    next_seq: int
    """After which the rest stands; 0: there is no more."""


class Keeper:
    """Removes what is older than its retention."""

    def __init__(
        self,
        store: Store,
        runs: RunReader,
        events: EventReader,
        workers: WorkerReader,
        retention: Retention,
    ) -> None:
        self._store = store
        self._runs = runs
        self._events = events
        self._workers = workers
        self._retention = retention
        self._looked_at_seq = 0
        """Where the next round goes on to look at runs; 0: the last came to the end."""

    async def prune(self, *, batches_max: int = BATCHES_MAX) -> Removed:
        """One round, which leaves to the next what is more than so many batches of a kind."""
        now, kept = await self._runs.now(), self._retention
        return Removed(
            await self._prune_runs(later(now, seconds=-kept.runs_s), batches_max),
            await self._prune_events(later(now, seconds=-kept.events_s), batches_max),
            await self._forget(later(now, seconds=-kept.idempotency_keys_s), batches_max),
            await self._forget_workers(later(now, seconds=-kept.workers_s), batches_max),
        )

    async def prune_all(self) -> Removed:
        """To the end: all that was old enough when it began."""
        self._looked_at_seq = 0
        return await self.prune(batches_max=sys.maxsize)

    async def prunable(self) -> Removed:
        """What `prune_all` would remove; changes nothing."""
        now, kept = await self._runs.now(), self._retention
        runs_before = later(now, seconds=-kept.runs_s)
        run_count = event_count = 0
        async for old in self._old_runs(runs_before, sys.maxsize, after_seq=0):
            counting = CountPrunable(old.ids, ended_before=runs_before)
            run_count += await self._store.apply(counting) if old.ids else 0
        async for seqs in self._old_events(later(now, seconds=-kept.events_s), sys.maxsize):
            event_count += len(seqs)
        old_at = later(now, seconds=-kept.idempotency_keys_s)
        return Removed(
            run_count,
            event_count,
            await self._runs.count_submissions(before=old_at),
            await self._workers.count_silent_workers(
                heard_before=later(now, seconds=-kept.workers_s)
            ),
        )

    async def _prune_runs(self, before: Instant, batches_max: int) -> int:
        count = 0
        # From where the last round has ended: what stays in front must not hide what is behind.
        after_seq = self._looked_at_seq
        async for old in self._old_runs(before, batches_max, after_seq=after_seq):
            if old.ids:
                count += await self._store.apply(PruneRuns(old.ids, ended_before=before))
            self._looked_at_seq = old.next_seq
        return count

    async def _old_runs(
        self, before: Instant, batches_max: int, *, after_seq: int
    ) -> AsyncIterator[_OldRuns]:
        for _ in range(batches_max):
            oldest = await self._runs.oldest_runs(after_seq=after_seq, limit=BATCH_COUNT)
            ended = tuple(
                run.id
                for run in oldest
                if run.status in TERMINAL and run.ended_at is not None and run.ended_at < before
            )
            # They stand in the order in which they were accepted: the rest is younger still.
            is_end = len(oldest) < BATCH_COUNT or oldest[-1].queued_at >= before
            after_seq = 0 if is_end else oldest[-1].seq
            yield _OldRuns(ended, after_seq)
            if is_end:
                return

    async def _prune_events(self, before: Instant, batches_max: int) -> int:
        count = 0
        async for seqs in self._old_events(before, batches_max):
            await self._store.apply(PruneEvents(seqs[-1]))
            count += len(seqs)
        return count

    async def _old_events(self, before: Instant, batches_max: int) -> AsyncIterator[list[int]]:
        after_seq = (await self._events.events(after_seq=0, limit=0)).pruned_seq
        for _ in range(batches_max):
            page = await self._events.events(after_seq=after_seq, limit=BATCH_COUNT)
            old = [event.seq for event in page.events if event.at < before]
            if old:
                yield old
            if len(old) < BATCH_COUNT:
                return
            after_seq = old[-1]

    async def _forget(self, before: Instant, batches_max: int) -> int:
        return await self._in_batches(
            batches_max,
            lambda: self._runs.oldest_submissions(before=before, limit=BATCH_COUNT),
            lambda old: ForgetSubmissions(old, before=before),
        )

    async def _forget_workers(self, before: Instant, batches_max: int) -> int:
        return await self._in_batches(
            batches_max,
            lambda: self._workers.silent_workers(heard_before=before, limit=BATCH_COUNT),
            lambda silent: ForgetWorkers(silent, heard_before=before),
        )

    async def _in_batches(
        self,
        batches_max: int,
        find: Callable[[], Awaitable[Sequence[T]]],
        forget: Callable[[tuple[T, ...]], Command[int]],
    ) -> int:
        """How many were forgotten, until there are no more of them."""
        count = 0
        for _ in range(batches_max):
            found = await find()
            if not found:
                break
            count += await self._store.apply(forget(tuple(found)))
        return count
