"""Explain why a run does not move: the gate that blocks it, its holders, and the remedy."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headway.core.ids import InstanceId, Instant, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.deadlines import next_deadline
from headway.core.run.run import DEATH_COUNT_MAX, NO_TOKEN, STOP_COUNT_MAX, QueueRank, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

SLOT_HOLDER_COUNT_MAX: Final = 100
CHILD_COUNT_MAX: Final = 100
INTERRUPT_COUNT_MAX: Final = 100
REASON_LENGTH_MAX: Final = 200
_SWEEP_REMEDY: Final = (
    "Keep at least one instance running: its sweep, once per second, takes care of this."
)


class Gate(StrEnum):
    ENDED = "ended"
    KEY = "key"
    """Another run of the same key goes first."""
    LANE_PAUSED = "lane_paused"
    LANE_LIMIT_ZERO = "lane_limit_zero"
    NO_LIVE_INSTANCE = "no_live_instance"
    LANE_FULL = "lane_full"
    NOT_CLAIMED = "not_claimed"
    """Nothing that is stored in the database blocks the run."""
    RUNNING = "running"
    LEASE_EXPIRED = "lease_expired"
    """The lease of the run's instance has expired, and the sweep has not released the run yet."""
    WAITING = "waiting"
    """The run's job waits for something, and has given the slot back meanwhile."""
    CHILD = "child"
    """The run's job waits without a slot, and the run has active children."""
    NOT_DUE = "not_due"
    INBOX = "inbox"
    """The run is parked until an item is posted to its inbox."""
    CANCELLING = "cancelling"
    NO_WORKER = "no_worker"
    """A node of the flow task needs a service that no live worker offers."""
    NO_FUNCTION = "no_function"
    """A node of the flow task needs a function that no program has registered so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A run and everything that may block it, at one instant."""

    run: Run
    lane: LaneRow
    head: Run | None
    """The head of the run's key."""
    ahead_count: int
    """The number of runs ahead of this run.

    They are in the queue of the key if the run waits there, else in the queue of the lane.
    """
    slot_holder_ids: Sequence[RunId]
    """The first SLOT_HOLDER_COUNT_MAX runs holding a slot of the lane. `held_count` counts all."""
    held_count: int
    leases: Mapping[InstanceId, Instant]
    """When the lease of each instance expires. Instances declared dead are not included."""
    ready_at: Instant | None
    """When the run became ready. None if it is not ready, or if the event was pruned."""
    moved_at: Instant | None
    """When the run last started, waited, parked or was woken. None if the event was pruned."""
    child_ids: Sequence[RunId] = ()
    """The first CHILD_COUNT_MAX active children of the run."""
    open_call_ids: Sequence[str] = ()
    """The call ids of the run's first INTERRUPT_COUNT_MAX open questions."""
    error: str | None = None
    """The error document of a failed run."""
    cancel: str | None = None
    """The cancel document: who canceled the run, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    run_id: RunId
    status: RunStatus
    gate: Gate
    sentence: str
    remedy: str
    """The next step for the reader, or what happens by itself, in one or more sentences."""
    since: Instant | None = None
    """Since when the run is at this gate. None if the event was pruned."""
    holder_ids: tuple[RunId | InstanceId, ...] = ()
    """The runs that block this run, or the instance that holds this run's claim.

    At the gates `key`, `lane_full` and `child`, these are runs.
    """
    position: int | None = None
    """The position among the runs that wait at the same gate, from 1."""
    until: Instant | None = None
    """When the run next changes by itself: it is woken, timed out, or ended by force."""
    parent_id: RunId | None = None


def explain(situation: Situation, now: Instant) -> Explanation:
    explanation = _explain(situation, now)
    parent_id = situation.run.parent_id
    if parent_id is None:
        return explanation
    sentence = f"{explanation.sentence} It is a child of run {parent_id}."
    return replace(explanation, sentence=sentence, parent_id=parent_id)


def _explain(situation: Situation, now: Instant) -> Explanation:
    run = situation.run
    if run.status in TERMINAL:
        return _explain_ended(situation)
    if run.status is RunStatus.CANCELLING:
        return _explain_cancelling(situation, now)
    if run.token != NO_TOKEN and not _has_lease(situation, run.instance_id, now):
        return _explain_lease_expired(situation)
    match run.queue_rank:
        case QueueRank.BEHIND:
            return _explain_behind(situation)
        case QueueRank.READY | QueueRank.RESUMED:
            return _explain_ready(situation, now)
        case _ if run.token == NO_TOKEN:
            return _explain_parked(situation, now)
        case _ if run.slot is None:
            return _explain_waiting(situation)
        case _:
            return _explain_executing(situation)


def _has_lease(situation: Situation, instance_id: InstanceId | None, now: Instant) -> bool:
    # `leases` contains neither instances declared dead nor unknown ones.
    return instance_id is not None and situation.leases.get(instance_id, now) > now


def _explain_ended(situation: Situation) -> Explanation:
    run, reason = situation.run, _end_reason(situation)
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.ENDED,
        sentence=f"The run has ended: {run.status.value}{reason and f' ({reason})'}.",
        remedy="Start a new run, or continue from this one.",
        since=run.ended_at,
    )


def _end_reason(situation: Situation) -> str:
    """Return why the run ended, as one short line without control characters (S4)."""
    if situation.run.status is RunStatus.CANCELED:
        document, field = situation.cancel, "reason"
    else:
        document, field = situation.error, "message"
    members = json.loads(document or "null")
    text = str(members.get(field) or "") if isinstance(members, dict) else ""
    visible = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(visible.split())
    return line if len(line) <= REASON_LENGTH_MAX else f"{line[: REASON_LENGTH_MAX - 1]}…"


def _explain_behind(situation: Situation) -> Explanation:
    run, head = situation.run, situation.head
    first = "another run" if head is None else f"run {head.id} ({head.status.value})"
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.KEY,
        sentence=f"Key {run.key!r} is busy: {first} goes first.",
        remedy="Wait until the earlier runs of the key have ended, or cancel them.",
        since=run.queued_at,
        holder_ids=() if head is None else (head.id,),
        position=situation.ahead_count + 1,
        until=next_deadline(run),
    )


def _explain_ready(situation: Situation, now: Instant) -> Explanation:
    run = situation.run
    gate = _lane_gate(situation, now)
    sentence, remedy = _describe_lane_gate(situation, gate)
    holder_ids: tuple[RunId | InstanceId, ...] = ()
    if gate is Gate.LANE_FULL:
        holder_ids = tuple(situation.slot_holder_ids)
    elif run.instance_id is not None:
        holder_ids = (run.instance_id,)
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=gate,
        sentence=_describe_history(run) + sentence + _describe_open_interrupts(situation),
        remedy=remedy,
        since=situation.ready_at,
        holder_ids=holder_ids,
        position=situation.ahead_count + 1,
        until=next_deadline(run),
    )


def _lane_gate(situation: Situation, now: Instant) -> Gate:
    lane = situation.lane
    if lane.is_paused:
        return Gate.LANE_PAUSED
    if lane.max_concurrent == 0:
        return Gate.LANE_LIMIT_ZERO
    if not any(_has_lease(situation, instance_id, now) for instance_id in situation.leases):
        return Gate.NO_LIVE_INSTANCE
    return Gate.LANE_FULL if situation.held_count >= lane.capacity else Gate.NOT_CLAIMED


def _describe_lane_gate(situation: Situation, gate: Gate) -> tuple[str, str]:
    """Return the sentence and the remedy for a run that is ready."""
    run, lane, held_count = situation.run, situation.lane, situation.held_count
    subject, argument = f"Lane {lane.name!r}", shlex.quote(lane.name)
    match gate:
        case Gate.LANE_PAUSED:
            return f"{subject} is paused.", f"Resume it with `headway lane resume {argument}`."
        case Gate.LANE_LIMIT_ZERO:
            remedy = f"Raise it with `headway lane set {argument} --max-concurrent 1`."
            return f"{subject} has the limit 0.", remedy
        case Gate.NO_LIVE_INSTANCE:
            remedy = (
                f"Start a program that has registered job {run.job!r}, for example with"
                " `headway serve --app module:name`."
            )
            return "No live instance can execute it.", remedy
        case Gate.LANE_FULL:
            sentence = f"{subject} is full: {held_count} of {lane.max_concurrent} slots are taken."
            return (
                sentence,
                "Wait until a run that holds a slot has ended, or raise the limit of the lane.",
            )
        case _ if run.instance_id is not None:
            sentence = f"{subject} has room: its instance takes a slot at its next poll."
            return sentence, "Nothing to do: it continues within seconds."
        case _:
            sentence = (
                f"{subject} has room: it starts at the next poll of an instance with its job."
            )
            # The jobs that an instance has registered are not stored in the database.
            return sentence, f"If this lasts, start a program that has registered job {run.job!r}."


def _describe_history(run: Run) -> str:
    """Return why a run that has started before needs a slot again, or an empty string."""
    if run.queue_rank != QueueRank.RESUMED:
        return ""
    if run.token != NO_TOKEN:
        return "Its wait is over and it needs a slot again. "
    # Ordinary parking resets both counts, so they are 0 after a timer or a message woke the run.
    if run.death_count > 0:
        return (
            f"Its process was lost ({run.death_count} in a row without progress; the run fails at"
            f" {DEATH_COUNT_MAX}) and it waits for another instance. "
        )
    if run.stop_count > 0:
        return (
            f"Its process was stopped ({run.stop_count} in a row without progress; the run fails at"
            f" {STOP_COUNT_MAX}) and it waits for another instance. "
        )
    return "It was woken and needs a slot again. "


def _describe_open_interrupts(situation: Situation) -> str:
    """Return a sentence that names the open questions of a run that no process executes.

    People can answer these questions.
    """
    run, call_ids = situation.run, situation.open_call_ids
    if run.token != NO_TOKEN or not call_ids:
        return ""
    suffix = _count_suffix(call_ids, "open questions")
    return f" Its question {call_ids[0]!r}{suffix} is open, and can be answered now."


def _explain_executing(situation: Situation) -> Explanation:
    run = situation.run
    assert run.instance_id is not None
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.RUNNING,
        sentence=f"It is running on instance {run.instance_id}, whose lease is valid.",
        remedy="Nothing to do: it ends when its job ends.",
        since=situation.moved_at,
        holder_ids=(run.instance_id,),
        until=next_deadline(run),
    )


def _explain_waiting(situation: Situation) -> Explanation:
    run, children, call_ids = situation.run, situation.child_ids, situation.open_call_ids
    assert run.instance_id is not None
    awaited, remedies = [], []
    if call_ids:
        suffix = _count_suffix(call_ids, "open questions")
        awaited.append(f"for an answer to {call_ids[0]!r}{suffix}")
        remedies.append(_answer_remedy(run.id, call_ids))
    if children:
        awaited.append(f"for child run {children[0]}{_count_suffix(children, 'active children')}")
        remedies.append(f"`headway run explain {children[0]}` shows what the child waits for.")
    if awaited:
        sentence, until = (
            f"Its job waits without a slot {' and '.join(awaited)}.",
            next_deadline(run),
        )
    else:
        # The end of a sleep is not stored in the database, and normally precedes the deadline.
        until = None
        sentence = (
            "Its job sleeps or waits without a slot: it has no open question and no active child."
        )
        remedies.append("Nothing to do: it continues at a time that only its program determines.")
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.CHILD if children else Gate.WAITING,
        sentence=sentence,
        remedy=" ".join(remedies),
        since=situation.moved_at,
        holder_ids=tuple(children) or (run.instance_id,),
        until=until,
    )


def _answer_remedy(run_id: RunId, call_ids: Sequence[str]) -> str:
    """Return a sentence with the command that answers the first open question.

    The command has the question's id only if several questions are open.
    """
    option = f" --call-id {shlex.quote(call_ids[0])}" if len(call_ids) > 1 else ""
    command = f"headway run resume {run_id}{option} --approve"
    return f"Answer it with `{command}`; `--deny` or `name=value` may replace `--approve`."


def _count_suffix(things: Sequence[str], name: str) -> str:
    return f", the first of its {len(things)} {name}" if len(things) > 1 else ""


def _explain_lease_expired(situation: Situation) -> Explanation:
    run = situation.run
    assert run.instance_id is not None
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.LEASE_EXPIRED,
        sentence=f"Its instance {run.instance_id} is lost: its lease has expired.",
        remedy=_SWEEP_REMEDY,
        since=situation.leases.get(run.instance_id),
        holder_ids=(run.instance_id,),
        until=next_deadline(run),
    )


def _explain_parked(situation: Situation, now: Instant) -> Explanation:
    run = situation.run
    if run.wake_at is None:
        gate, sentence = Gate.INBOX, "It is parked until an item is posted to its inbox."
        remedy = "Send the run a message, an answer or a signal."
    elif run.wake_at > now:
        gate, sentence = Gate.NOT_DUE, "It is parked until its wake time or its next message."
        remedy = "Wait for its wake time, or send the run a message."
    else:
        gate, sentence = Gate.NOT_DUE, "It is parked, and its wake time has passed."
        remedy = _SWEEP_REMEDY
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=gate,
        sentence=sentence,
        remedy=remedy,
        since=situation.moved_at,
        until=next_deadline(run),
    )


def _explain_cancelling(situation: Situation, now: Instant) -> Explanation:
    run = situation.run
    is_over = run.cancel_deadline_at is not None and run.cancel_deadline_at <= now
    is_held = _has_lease(situation, run.instance_id, now)
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.CANCELLING,
        sentence=(
            "It is cancelling, and its job is cleaning up."
            if is_held and not is_over
            else "It is cancelling, and its job did not end in time."
        ),
        remedy=(
            "Wait until the job has ended. After its grace period the run is ended by force."
            if is_held and not is_over
            else _SWEEP_REMEDY
        ),
        since=situation.moved_at,
        holder_ids=() if run.instance_id is None else (run.instance_id,),
        until=run.cancel_deadline_at,
    )
