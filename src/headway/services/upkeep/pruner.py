"""Remove expired rows in batches while other work continues.

A round continues while most runs of its batches can be removed, so pruning keeps up with an engine
at full rate, also if a few runs in each batch must stay (I19). After each batch the round pauses
for as long as the batch took, so other commands have at least half of the writer's time. Several
instances may prune at once: each command checks its conditions again, on locked rows.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from headway.core.command.admin.prune import (
    CountPrunable,
    PruneEvents,
    PruneIdempotencyKeys,
    PruneRuns,
)
from headway.core.command.flow.register_worker import PruneWorkers
from headway.core.command.protocol import Command
from headway.core.duration import check_seconds
from headway.core.ids import Instant, RunId, add_seconds
from headway.core.run.transitions import TERMINAL
from headway.core.worker.saved_worker import RETENTION_S as WORKER_RETENTION_S
from headway.ports.event_reader import EventReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.ports.workers import WorkerReader

T = TypeVar("T")
DAY_S: Final = 86_400.0
BATCH_SIZE: Final = 500
EVENT_BATCH_SIZE: Final = 5_000
"""The number of events in a batch.

A batch of events is larger than other batches, because the command removes a prefix of the stream
without loading its rows.
"""
BLOCKED_BATCH_COUNT_MAX: Final = 20
"""How many batches of a round may consist mostly of runs that must stay.

The next round continues after these batches.
"""
PAUSE_S_MAX: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long ended runs, events, idempotency keys and inactive workers are stored."""

    runs_s: float = 30 * DAY_S
    events_s: float = 30 * DAY_S
    idempotency_keys_s: float = 7 * DAY_S
    workers_s: float = WORKER_RETENTION_S
    """How long an inactive worker is stored, counted from its last heartbeat."""

    def __post_init__(self) -> None:
        for name in ("runs_s", "events_s", "idempotency_keys_s", "workers_s"):
            check_seconds(getattr(self, name), field=f"retention.{name}")


class PrunedCounts(NamedTuple):
    """The number of removed rows of each kind."""

    run_count: int
    event_count: int
    idempotency_key_count: int
    worker_count: int


class _OldRuns(NamedTuple):
    ids: tuple[RunId, ...]
    next_seq: int
    """The `seq` after which the next page begins, or 0 after the last page."""


class Pruner:
    """Removes rows that are older than their retention."""

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
        self._after_seq = 0
        """The `seq` after which the next round reads runs, or 0 if the last round was complete."""

    async def prune(self, is_stopping: Callable[[], bool] = lambda: False) -> PrunedCounts:
        """Remove expired rows in one round. End early if `is_stopping` returns True."""
        return await self._prune(_PruneRound(is_stopping))

    async def prune_all(self) -> PrunedCounts:
        """Remove all expired rows, without pauses."""
        self._after_seq = 0
        return await self._prune(_PruneRound(blocked_batch_count_max=sys.maxsize, pause_s_max=0.0))

    async def _prune(self, prune_round: "_PruneRound") -> PrunedCounts:
        now, retention = await self._runs.now(), self._retention
        return PrunedCounts(
            await self._prune_runs(add_seconds(now, seconds=-retention.runs_s), prune_round),
            await self._prune_events(add_seconds(now, seconds=-retention.events_s), prune_round),
            await self._prune_submissions(
                add_seconds(now, seconds=-retention.idempotency_keys_s), prune_round
            ),
            await self._prune_workers(add_seconds(now, seconds=-retention.workers_s), prune_round),
        )

    async def count_prunable(self) -> PrunedCounts:
        """Return how many rows `prune_all` would remove, without changing anything."""
        now, retention = await self._runs.now(), self._retention
        runs_before = add_seconds(now, seconds=-retention.runs_s)
        run_count = event_count = 0
        async for old in self._old_runs(runs_before, after_seq=0):
            command = CountPrunable(old.ids, ended_before=runs_before)
            run_count += await self._store.apply(command) if old.ids else 0
        async for _, count in self._old_events(add_seconds(now, seconds=-retention.events_s)):
            event_count += count
        keys_before = add_seconds(now, seconds=-retention.idempotency_keys_s)
        return PrunedCounts(
            run_count,
            event_count,
            await self._runs.count_idempotency_keys(before=keys_before),
            await self._workers.count_stale_workers(
                heartbeat_before=add_seconds(now, seconds=-retention.workers_s)
            ),
        )

    async def _prune_runs(self, before: Instant, prune_round: "_PruneRound") -> int:
        count = blocked_count = 0
        # Start where the last round ended, so that runs that must stay do not hide later runs.
        async for old in self._old_runs(before, after_seq=self._after_seq):
            removed = 0
            if old.ids:
                removed = await self._store.apply(PruneRuns(old.ids, ended_before=before))
            self._after_seq = old.next_seq
            count += removed
            blocked_count += removed * 2 < BATCH_SIZE
            if (
                blocked_count >= prune_round.blocked_batch_count_max
                or not await prune_round.pause()
            ):
                break
        return count

    async def _old_runs(self, before: Instant, *, after_seq: int) -> AsyncIterator[_OldRuns]:
        while True:  # Until the first younger run.
            oldest = await self._runs.oldest_runs(after_seq=after_seq, limit=BATCH_SIZE)
            ended = tuple(
                run.id
                for run in oldest
                if run.status in TERMINAL and run.ended_at is not None and run.ended_at < before
            )
            # Runs are read in the order of their submission, so all further runs are younger.
            is_end = len(oldest) < BATCH_SIZE or oldest[-1].queued_at >= before
            after_seq = 0 if is_end else oldest[-1].seq
            yield _OldRuns(ended, after_seq)
            if is_end:
                return

    async def _prune_events(self, before: Instant, prune_round: "_PruneRound") -> int:
        count = 0
        async for last_seq, old_count in self._old_events(before):
            await self._store.apply(PruneEvents(last_seq, count_max=EVENT_BATCH_SIZE))
            count += old_count
            if not await prune_round.pause():
                break
        return count

    async def _old_events(self, before: Instant) -> AsyncIterator[tuple[int, int]]:
        """For each batch of expired events, yield its last `seq` and its number of events."""
        after_seq = (await self._events.events(after_seq=0, limit=0)).pruned_seq
        while True:  # Until the first younger event.
            times = await self._events.event_times(after_seq=after_seq, limit=EVENT_BATCH_SIZE)
            old = [seq for seq, at in times if at < before]
            if old:
                yield old[-1], len(old)
            if len(old) < EVENT_BATCH_SIZE:
                return
            after_seq = old[-1]

    async def _prune_submissions(self, before: Instant, prune_round: "_PruneRound") -> int:
        return await self._prune_batches(
            prune_round,
            lambda: self._runs.oldest_idempotency_keys(before=before, limit=BATCH_SIZE),
            lambda old: PruneIdempotencyKeys(old, recorded_before=before),
        )

    async def _prune_workers(self, before: Instant, prune_round: "_PruneRound") -> int:
        return await self._prune_batches(
            prune_round,
            lambda: self._workers.stale_workers(heartbeat_before=before, limit=BATCH_SIZE),
            lambda stale: PruneWorkers(stale, heartbeat_before=before),
        )

    async def _prune_batches(
        self,
        prune_round: "_PruneRound",
        read_batch: Callable[[], Awaitable[Sequence[T]]],
        make_command: Callable[[tuple[T, ...]], Command[int]],
    ) -> int:
        """Remove batches until none is left, and return how many rows were removed."""
        count = 0
        while batch := await read_batch():
            count += await self._store.apply(make_command(tuple(batch)))
            if len(batch) < BATCH_SIZE or not await prune_round.pause():
                break
        return count


class _PruneRound:
    """The limits of one round of pruning, and its pauses for other work."""

    def __init__(
        self,
        is_stopping: Callable[[], bool] = lambda: False,
        *,
        blocked_batch_count_max: int | None = None,
        pause_s_max: float = PAUSE_S_MAX,
    ) -> None:
        self._is_stopping = is_stopping
        self._pause_s_max = pause_s_max
        self._since_s = time.monotonic()
        self.blocked_batch_count_max = blocked_batch_count_max or BLOCKED_BATCH_COUNT_MAX

    async def pause(self) -> bool:
        """Pause for as long as the last batch took. Return False if the round must end."""
        took_s = time.monotonic() - self._since_s
        await asyncio.sleep(min(took_s, self._pause_s_max))
        self._since_s = time.monotonic()
        return not self._is_stopping()
