"""Runs beside what belongs to them, as of one instant.

No check looks further than its page, so a database at work gives no false alarm: whatever is
compared was read in one transaction.
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
    """In the order in which they were accepted."""
    unknown_values: Mapping[RunId, str]
    """Runs with a word, here given, that is in no vocabulary."""
    last_seq: int | None
    """Of the last run of the page, readable or not; None: there are no more."""
    pruned_seq: int
    heads: Mapping[Key, Sequence[KeyHead]]
    first_waiting_seqs: Mapping[Key, int]
    """The least `seq` among those that wait behind the head of a key."""
    predecessor_ids: Mapping[RunId, RunId]
    """Of a run that has started: the last one before it in its key that has started too."""
    run_seq_ranges: Mapping[RunId, RunSeqRange]
    changes: Mapping[RunId, Sequence[StateChange]]
    unread_counts: Mapping[RunId, int]
    instances: Sequence[Instance]
    orphan_parent_ids: Mapping[RunId, RunId]
    """Active children that nobody has asked to end, each with a parent that is over, or asked to,
    and thinks that it has none left."""


def check_instances(
    instances: Sequence[Instance], *, now: Instant, grace_s: float
) -> Iterator[Finding]:
    """If no instance is alive, report those that stopped renewing their lease."""
    if any(not one.is_dead and one.lease_expires_at > now for one in instances):
        return
    late = add_seconds(now, seconds=-grace_s)
    for one in instances:
        if not one.is_dead and one.lease_expires_at <= late:
            yield note(
                "I21",
                f"instance {one.id}",
                f"process {one.pid} on {one.host} did not stop gracefully and no longer renews its"
                " lease; if it is running, check its /readyz: after a failover or a restore servers"
                " refuse a database that lacks commits they have seen; to make them use this one,"
                f" run: {ACCEPT_PRIMARY_COMMAND} (or restart them)",
            )


def check_page(page: ExaminedRuns, *, now: Instant, grace_s: float) -> Iterator[Finding]:
    """`patience_s`: how late the sweep may be before it is a violation."""
    for run_id, word in page.unknown_values.items():
        yield violation("I12", f"run {run_id}", f"it has the unknown word {word!r}")
    late = add_seconds(now, seconds=-grace_s)
    is_swept = any(
        not one.is_dead and one.lease_expires_at > now and one.started_at <= late
        for one in page.instances
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
            sentence = f"it goes on, but its parent {page.orphan_parent_ids[run.id]} does not"
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
    """Not by times: a clock may jump back."""
    heads = page.heads.get(run.key, ())
    unstarted = [head.seq for head in heads if head.started_at is None]
    if run.started_at is not None:
        first_waiting = page.first_waiting_seqs.get(run.key, run.seq)
        if min(first_waiting, *unstarted, run.seq) < run.seq or _has_overtaken(page, run):
            sentence = f"it started before an earlier run of key {run.key!r}"
            yield violation("I9", describe_run(run), sentence)
    elif run.waiting_key is not None and any(seq > run.seq for seq in unstarted):
        sentence = f"a later run of key {run.key!r} is to start before it"
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
        sentence = f"it says that {run.unread_count} messages are unread, but there are {count}"
        yield violation("I3", describe_run(run), sentence)


def _check_holder(
    page: ExaminedRuns, run: Run, late: Instant, *, is_swept: bool
) -> Iterator[Finding]:
    if run.instance_id is None:
        return
    holder = next((one for one in page.instances if one.id == run.instance_id), None)
    if holder is None:
        # A row is taken away when its runs are released, so nobody looks for these any more.
        sentence = f"it is held by instance {run.instance_id}, which is unknown"
        yield violation("I8", describe_run(run), sentence)
    elif holder.lease_expires_at <= late:
        yield _overdue(
            "I8", run, f"it is still held by instance {holder.id}, which is gone", is_swept=is_swept
        )


def _check_deadline(run: Run, late: Instant, *, is_swept: bool) -> Iterator[Finding]:
    if run.due_at is not None and run.due_at <= late:
        promise = "I11" if run.status is RunStatus.CANCELLING else "I18"
        yield _overdue(
            promise, run, "its deadline has passed and nothing came of it", is_swept=is_swept
        )


def _overdue(promise: str, run: Run, sentence: str, *, is_swept: bool) -> Finding:
    if is_swept:
        return violation(promise, describe_run(run), sentence)
    return note(promise, describe_run(run), f"{sentence}; no instance has been alive to see to it")
