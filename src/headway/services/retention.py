"""Retention: what is over and old enough goes, a few rows at a time, beside the work.

Several instances may do so at once: each command looks again, on locked rows.
"""

from dataclasses import dataclass
from typing import Final

from headway.core.command.prune import ForgetSubmissions, PruneEvents, PruneRuns
from headway.core.duration import check_seconds
from headway.core.ids import Instant, later
from headway.core.run.transitions import TERMINAL
from headway.ports.event_reader import EventReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store

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

    def __post_init__(self) -> None:
        for place in ("runs_s", "events_s", "idempotency_keys_s"):
            check_seconds(getattr(self, place), place=f"retention.{place}")


class Keeper:
    """Removes what is older than its retention."""

    def __init__(
        self,
        store: Store,
        runs: RunReader,
        events: EventReader,
        retention: Retention,
    ) -> None:
        self._store = store
        self._runs = runs
        self._events = events
        self._retention = retention

    async def prune(self) -> None:
        """One round."""
        now = await self._runs.now()
        await self._prune_runs(later(now, seconds=-self._retention.runs_s))
        await self._prune_events(later(now, seconds=-self._retention.events_s))
        await self._forget(later(now, seconds=-self._retention.idempotency_keys_s))

    async def _prune_runs(self, before: Instant) -> None:
        after_seq = 0
        for _ in range(BATCHES_MAX):
            oldest = await self._runs.oldest_runs(after_seq=after_seq, limit=BATCH_COUNT)
            ended = tuple(
                run.id
                for run in oldest
                if run.status in TERMINAL and run.ended_at is not None and run.ended_at < before
            )
            if ended:
                await self._store.apply(PruneRuns(ended, ended_before=before))
            # They stand in the order in which they were accepted: the rest is younger still.
            if len(oldest) < BATCH_COUNT or oldest[-1].queued_at >= before:
                return
            after_seq = oldest[-1].seq

    async def _prune_events(self, before: Instant) -> None:
        pruned_seq = (await self._events.events(after_seq=0, limit=0)).pruned_seq
        for _ in range(BATCHES_MAX):
            page = await self._events.events(after_seq=pruned_seq, limit=BATCH_COUNT)
            old = [event.seq for event in page.events if event.at < before]
            if not old:
                return
            pruned_seq = await self._store.apply(PruneEvents(old[-1]))
            if len(old) < BATCH_COUNT:
                return

    async def _forget(self, before: Instant) -> None:
        for _ in range(BATCHES_MAX):
            old = await self._runs.oldest_submissions(before=before, limit=BATCH_COUNT)
            if not old:
                return
            await self._store.apply(ForgetSubmissions(tuple(old), before=before))
