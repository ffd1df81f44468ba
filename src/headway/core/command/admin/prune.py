"""Retention: remove old runs, events and idempotency keys, a limited number at a time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded
from headway.core.ids import Instant, Key, RunId
from headway.core.run.transitions import TERMINAL


@dataclass(frozen=True, slots=True)
class PruneRuns:
    """Remove the runs in `run_ids` that may be pruned, as `_find_prunable` decides."""

    run_ids: tuple[RunId, ...]
    ended_before: Instant

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        _need_runs(rows, self.run_ids)

    def decide(self, batch: BatchState) -> int:
        """Return how many runs were removed."""
        removed = _find_prunable(batch, self.run_ids, self.ended_before)
        for run_id in removed:
            run = batch.runs.pop(run_id)
            batch.changes.runs_removed[run_id] = None
            # A later command of the batch must not continue from a removed run.
            for latest_ids in (batch.latest_run_ids, batch.latest_started_ids):
                if latest_ids.get(run.key) == run_id:
                    del latest_ids[run.key]
        return len(removed)


@dataclass(frozen=True, slots=True)
class CountPrunable:
    """Count the runs that `PruneRuns` would remove. Changes nothing."""

    run_ids: tuple[RunId, ...]
    ended_before: Instant

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        _need_runs(rows, self.run_ids)

    def decide(self, batch: BatchState) -> int:
        return len(_find_prunable(batch, self.run_ids, self.ended_before))


def _need_runs(rows: RowsNeeded, run_ids: Iterable[RunId]) -> None:
    for run_id in run_ids:
        rows.add_run(run_id)
        rows.pruned_ids[run_id] = None


def _find_prunable(
    batch: BatchState, run_ids: Iterable[RunId], ended_before: Instant
) -> list[RunId]:
    """Return the runs that ended before `ended_before`, except runs that are still needed.

    The newest started run of a busy key stays, because a waiting run may continue from it. Children
    of an active parent stay, because the parent may read them again. A run stays until its children
    have been asked to end.
    """
    newest_seqs = _newest_started_seqs(batch)
    return [
        run_id
        for run_id in run_ids
        if (run := batch.run(run_id)) is not None
        and run.status in TERMINAL
        and run.ended_at is not None
        and run.ended_at < ended_before
        and (batch.head_run(run.key) is None or run.seq != newest_seqs.get(run.key))
        and not run.is_parent
        and not (run.parent_id is not None and batch.is_active(run.parent_id))
    ]


def _newest_started_seqs(batch: BatchState) -> dict[Key, int]:
    seqs = dict(batch.other_started_seqs)
    for run in batch.runs.values():
        if run.started_at is not None:
            seqs[run.key] = max(run.seq, seqs.get(run.key, run.seq))
    return seqs


@dataclass(frozen=True, slots=True)
class PruneEvents:
    """Remove the oldest events. A subscriber that has not read them receives `resync`."""

    up_to_seq: int
    count_max: int = 10_000

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        """Add no rows: every batch locks the row of the stream."""

    def decide(self, batch: BatchState) -> int:
        """Return the last pruned `seq`. If it is less than `up_to_seq`, prune again."""
        up_to_seq = min(self.up_to_seq, batch.seq, batch.pruned_seq + self.count_max)
        if up_to_seq > batch.pruned_seq:
            batch.pruned_seq = batch.changes.pruned_seq = up_to_seq
        return batch.pruned_seq


@dataclass(frozen=True, slots=True)
class PruneIdempotencyKeys:
    """Remove idempotency keys whose retention time is over."""

    idempotency_keys: tuple[str, ...]
    recorded_before: Instant
    """Remove the keys that were recorded at this instant or earlier."""

    may_free_capacity: ClassVar[bool] = False

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        rows.idempotency_keys |= dict.fromkeys(self.idempotency_keys)

    def decide(self, batch: BatchState) -> int:
        """Return how many keys were removed."""
        old = [
            key
            for key in self.idempotency_keys
            if (record := batch.idempotency_records.get(key)) is not None
            and record.at <= self.recorded_before
        ]
        for key in old:
            del batch.idempotency_records[key]
            if batch.changes.idempotency_records_added.pop(key, None) is None:
                batch.changes.idempotency_keys_removed[key] = None
        return len(old)
