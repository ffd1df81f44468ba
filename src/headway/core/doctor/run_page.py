"""Compare a page of runs with their keys, events, inboxes and instances, at one instant.

No check uses data outside its page, and a page is read in one transaction. A database in use
therefore causes no false findings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headway.core.batch_state import Instance
from headway.core.doctor.finding import Finding, note, violation
from headway.core.doctor.history import RunSeqRange, StateChange, check_history, start_seq_of
from headway.core.doctor.rules import check_run, describe_run
from headway.core.errors import ACCEPT_PRIMARY_COMMAND
from headway.core.ids import Instant, Key, RunId, add_seconds
from headway.core.run.run import Run
from headway.core.run.status import RunStatus


class KeyHead(NamedTuple):
    key: Key
    seq: int
    id: RunId
    started_at: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedRuns:
    runs: Sequence[Run]
    """The runs, in the order in which they were accepted."""
    unknown_values: Mapping[RunId, str]
    """Maps each run that has an unknown status, mode or recovery to the unknown value."""
    last_seq: int | None
    """The `seq` of the page's last run, even if it has an unknown value. None if there is none."""
    pruned_seq: int
    heads: Mapping[Key, Sequence[KeyHead]]
    first_waiting_seqs: Mapping[Key, int]
    """Maps each key to the lowest `seq` among the runs that wait behind its head."""
    predecessor_ids: Mapping[RunId, RunId]
    """Maps each started run to the previous started run of the same key."""
    run_seq_ranges: Mapping[RunId, RunSeqRange]
    changes: Mapping[RunId, Sequence[StateChange]]
    unread_counts: Mapping[RunId, int]
    instances: Sequence[Instance]
    orphan_parent_ids: Mapping[RunId, RunId]
    """Maps each child that should have been canceled with its parent to that parent.

    The child is queued or running. The parent has ended or is cancelling, but its row records no
    children left to end.
    """


def check_instances(
    instances: Sequence[Instance], *, now: Instant, grace_s: float
) -> Iterator[Finding]:
    """If no instance is alive, yield a finding for each one that stopped renewing its lease."""
    if any(not instance.is_dead and instance.lease_expires_at > now for instance in instances):
        return
    late = add_seconds(now, seconds=-grace_s)
    for instance in instances:
        if not instance.is_dead and instance.lease_expires_at <= late:
            yield note(
                "I21",
                f"instance {instance.id}",
                f"process {instance.pid} on {instance.host} did not stop gracefully and no longer"
                " renews its lease; if it is running, check its /readyz: after a failover or a"
                " restore, servers refuse a database that lacks commits they have seen; to make"
                f" them use this one, run: {ACCEPT_PRIMARY_COMMAND} (or restart them)",
            )


def check_page(page: ExaminedRuns, *, now: Instant, grace_s: float) -> Iterator[Finding]:
    """Yield the findings on a page of runs.

    `grace_s` is how late the sweep may be without a violation.
    """
    for run_id, value in page.unknown_values.items():
        yield violation("I12", f"run {run_id}", f"it has the unknown value {value!r}")
    late = add_seconds(now, seconds=-grace_s)
    is_swept = any(
        not instance.is_dead and instance.lease_expires_at > now and instance.started_at <= late
        for instance in page.instances
    )
    for run in page.runs:
        yield from check_run(run)
        yield from _check_key(page, run)
        yield from _check_order(page, run)
        yield from check_history(
            run,
            page.run_seq_ranges.get(run.id),
            page.changes.get(run.id, ()),
            is_unpruned=run.seq > page.pruned_seq,
        )
        yield from _check_inbox(page, run)
        if run.id in page.orphan_parent_ids:
            parent_id = page.orphan_parent_ids[run.id]
            sentence = f"it is active, but its parent {parent_id} has ended or is cancelling"
            yield violation("I11", describe_run(run), sentence)
        yield from _check_holder(page, run, late, is_swept=is_swept)
        yield from _check_deadline(run, late, is_swept=is_swept)


def _check_key(page: ExaminedRuns, run: Run) -> Iterator[Finding]:
    heads = page.heads.get(run.key, ())
    if run.waiting_key is not None and not heads:
        yield violation("I3", describe_run(run), f"key {run.key!r} has active runs, but no head")
    if run.head_key == run.key and any(head.seq < run.seq for head in heads):
        yield violation("I4", describe_run(run), f"key {run.key!r} has more than one head")


def _check_order(page: ExaminedRuns, run: Run) -> Iterator[Finding]:
    """Yield a finding if the runs of a key did not start in the order of their `seq`s.

    Times are not compared, because a clock may be set back.
    """
    heads = page.heads.get(run.key, ())
    unstarted = [head.seq for head in heads if head.started_at is None]
    if run.started_at is not None:
        first_waiting = page.first_waiting_seqs.get(run.key, run.seq)
        if min(first_waiting, *unstarted, run.seq) < run.seq or _has_overtaken(page, run):
            sentence = f"it started before an earlier run of key {run.key!r}"
            yield violation("I9", describe_run(run), sentence)
    elif run.waiting_key is not None and any(seq > run.seq for seq in unstarted):
        sentence = f"a later run of key {run.key!r} is ahead of it"
        yield violation("I9", describe_run(run), sentence)


def _has_overtaken(page: ExaminedRuns, run: Run) -> bool:
    predecessor_id = page.predecessor_ids.get(run.id)
    if predecessor_id is None:
        return False
    before = start_seq_of(page.changes.get(predecessor_id, ()))
    started = start_seq_of(page.changes.get(run.id, ()))
    return before is not None and started is not None and before > started


def _check_inbox(page: ExaminedRuns, run: Run) -> Iterator[Finding]:
    count = page.unread_counts.get(run.id, 0)
    if count != run.unread_count:
        sentence = f"its unread count is {run.unread_count}, but its inbox has {count} unread items"
        yield violation("I3", describe_run(run), sentence)


def _check_holder(
    page: ExaminedRuns, run: Run, late: Instant, *, is_swept: bool
) -> Iterator[Finding]:
    if run.instance_id is None:
        return
    instances = page.instances
    holder = next((instance for instance in instances if instance.id == run.instance_id), None)
    if holder is None:
        # The row of an instance is removed after its runs are released, so no sweep finds this run.
        sentence = f"it is held by instance {run.instance_id}, which is unknown"
        yield violation("I8", describe_run(run), sentence)
    elif holder.lease_expires_at <= late:
        yield _overdue(
            "I8",
            run,
            f"it is still held by instance {holder.id}, whose lease has expired",
            is_swept=is_swept,
        )


def _check_deadline(run: Run, late: Instant, *, is_swept: bool) -> Iterator[Finding]:
    if run.due_at is not None and run.due_at <= late:
        promise = "I11" if run.status is RunStatus.CANCELLING else "I18"
        yield _overdue(promise, run, "its deadline has passed without an effect", is_swept=is_swept)


def _overdue(promise: str, run: Run, sentence: str, *, is_swept: bool) -> Finding:
    if is_swept:
        return violation(promise, describe_run(run), sentence)
    return note(
        promise, describe_run(run), f"{sentence}; no instance has been running to handle it"
    )
