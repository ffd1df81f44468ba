"""Retention: what is over and old enough is removed, a few rows at a time."""

from collections.abc import Iterable
from dataclasses import dataclass

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.ids import Instant, Key, RunId
from headway.core.run.transitions import TERMINAL


@dataclass(frozen=True, slots=True)
class PruneRuns:
    run_ids: tuple[RunId, ...]
    ended_before: Instant

    def need(self, needs: RowsNeeded) -> None:
        _need_runs(needs, self.run_ids)

    def decide(self, world: BatchState) -> int:
        """How many were removed."""
        removed = _find_prunable(world, self.run_ids, self.ended_before)
        for run_id in removed:
            run = world.runs.pop(run_id)
            world.changes.runs_removed[run_id] = None
            # Nor may a later command of the batch continue from it.
            for newest in (world.latest_run_ids, world.latest_started_ids):
                if newest.get(run.key) == run_id:
                    del newest[run.key]
        return len(removed)


@dataclass(frozen=True, slots=True)
class CountPrunable:
    """Look how many `PruneRuns` would remove; changes nothing."""

    run_ids: tuple[RunId, ...]
    ended_before: Instant

    def need(self, needs: RowsNeeded) -> None:
        _need_runs(needs, self.run_ids)

    def decide(self, world: BatchState) -> int:
        return len(_find_prunable(world, self.run_ids, self.ended_before))


def _need_runs(needs: RowsNeeded, run_ids: Iterable[RunId]) -> None:
    for run_id in run_ids:
        needs.add_run(run_id)
        needs.pruned_ids[run_id] = None


def _find_prunable(
    world: BatchState, run_ids: Iterable[RunId], ended_before: Instant
) -> list[RunId]:
    """Those that are over and old enough.

    A busy key keeps the newest run that has started: who waits may go on from it. An active parent
    keeps its children: it may look for them again. And who has children that must end first is
    needed for that.
    """
    newest = _newest_started(world)
    return [
        run_id
        for run_id in run_ids
        if (run := world.run(run_id)) is not None
        and run.status in TERMINAL
        and run.ended_at is not None
        and run.ended_at < ended_before
        and (world.head_run(run.key) is None or run.seq != newest.get(run.key))
        and not run.is_parent
        and not (run.parent_id is not None and world.is_active(run.parent_id))
    ]


def _newest_started(world: BatchState) -> dict[Key, int]:
    newest = dict(world.other_started_seqs)
    for run in world.runs.values():
        if run.started_at is not None:
            newest[run.key] = max(run.seq, newest.get(run.key, run.seq))
    return newest


@dataclass(frozen=True, slots=True)
class PruneEvents:
    """Remove the beginning of the stream; a subscriber that still wants it is told to resync."""

    up_to_seq: int
    count_max: int = 10_000

    def need(self, needs: RowsNeeded) -> None:
        """The stream's own row is locked by every batch."""

    def decide(self, world: BatchState) -> int:
        """Up to where the stream is pruned now; if less than asked for, there is more to do."""
        up_to_seq = min(self.up_to_seq, world.seq, world.pruned_seq + self.count_max)
        if up_to_seq > world.pruned_seq:
            world.pruned_seq = world.changes.pruned_seq = up_to_seq
        return world.pruned_seq


@dataclass(frozen=True, slots=True)
class PruneIdempotencyKeys:
    """Forget idempotency keys that are older than their promise."""

    idempotency_keys: tuple[str, ...]
    recorded_before: Instant
    """What was remembered then, or earlier, is forgotten."""

    def need(self, needs: RowsNeeded) -> None:
        needs.idempotency_keys |= dict.fromkeys(self.idempotency_keys)

    def decide(self, world: BatchState) -> int:
        """How many of them were old enough."""
        old = [
            key
            for key in self.idempotency_keys
            if (one := world.idempotency_records.get(key)) is not None
            and one.at <= self.recorded_before
        ]
        for key in old:
            del world.idempotency_records[key]
            if world.changes.idempotency_records_added.pop(key, None) is None:
                world.changes.idempotency_keys_removed[key] = None
        return len(old)
