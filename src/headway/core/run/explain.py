"""Why a run that is not moving does not move: which gate, who holds it, and what would free it."""

import json
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


class Gate(StrEnum):
    ENDED = "ended"
    KEY = "key"
    """Another run of its key goes first."""
    LANE_PAUSED = "lane_paused"
    LANE_LIMIT_ZERO = "lane_limit_zero"
    NO_LIVE_INSTANCE = "no_live_instance"
    LANE_FULL = "lane_full"
    NOT_CLAIMED = "not_claimed"
    """Nothing that the database knows of is in its way."""
    RUNNING = "running"
    LEASE_EXPIRED = "lease_expired"
    """Its instance is gone, and the sweep has not taken the run from it yet."""
    WAITING = "waiting"
    """Its executor waits for something, and has given the slot back meanwhile."""
    CHILD = "child"
    """The same, and it has children that are active."""
    NOT_DUE = "not_due"
    INBOX = "inbox"
    """Parked until somebody posts to its inbox."""
    CANCELLING = "cancelling"
    NO_WORKER = "no_worker"
    """Of a flow's task: its node needs a service that no live worker offers."""
    NO_FUNCTION = "no_function"
    """The same: a function that no program has which took the task so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A run and what it may be waiting for, as of one instant."""

    run: Run
    lane: LaneRow
    head: Run | None
    """Of its key."""
    ahead_count: int
    """Who waits before it: behind the head of its key if it does so itself, else in its lane."""
    slot_holder_ids: Sequence[RunId]
    """Of its lane: the first SLOT_HOLDER_COUNT_MAX of `held_count`."""
    held_count: int
    leases: Mapping[InstanceId, Instant]
    """When each instance that nobody has declared dead loses its lease."""
    ready_at: Instant | None
    """When it became ready; None when it is not, or when the event has been pruned."""
    moved_at: Instant | None
    """When it last began, waited, parked or was woken; None when no event tells any more."""
    child_ids: Sequence[RunId] = ()
    """Its active ones: the first CHILD_COUNT_MAX of them."""
    open_call_ids: Sequence[str] = ()
    """The call ids of what it asks people: the first QUESTION_COUNT_MAX of them."""
    error: str | None = None
    """The document that tells why it failed."""
    cancel: str | None = None
    """The document of who asked it to end, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    run_id: RunId
    status: RunStatus
    gate: Gate
    sentence: str
    remedy: str
    """What would free it."""
    since: Instant | None = None
    """How long it has been so; None when no event tells any more."""
    holder_ids: tuple[RunId | InstanceId, ...] = ()
    """Runs at the gates `key`, `lane_full` and `child`, else the instance that has its claim."""
    position: int | None = None
    """From 1, among those that wait at the same gate."""
    until: Instant | None = None
    """When something happens by itself: it is woken, timed out, or forced to end."""
    parent_id: RunId | None = None


def explain(situation: Situation, now: Instant) -> Explanation:
    found = _explain(situation, now)
    parent_id = situation.run.parent_id
    if parent_id is None:
        return found
    sentence = f"{found.sentence} It is a child of run {parent_id}."
    return replace(found, sentence=sentence, parent_id=parent_id)


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
    # An instance that is declared dead has no lease, and one that is unknown never had any.
    return instance_id is not None and situation.leases.get(instance_id, now) > now


def _explain_ended(situation: Situation) -> Explanation:
    run, reason = situation.run, _end_reason(situation)
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.ENDED,
        sentence=f"The run is over: {run.status.value}{reason and f' ({reason})'}.",
        remedy="Nothing: an end is for ever. Start another run, or continue from this one.",
        since=run.ended_at,
    )


def _end_reason(situation: Situation) -> str:
    """Why it ended so, in one short line in which nothing could move a cursor (S4)."""
    if situation.run.status is RunStatus.CANCELED:
        document, field = situation.cancel, "reason"
    else:
        document, field = situation.error, "message"
    told = json.loads(document or "null")
    text = str(told.get(field) or "") if isinstance(told, dict) else ""
    visible = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(visible.split())
    return line if len(line) <= REASON_LENGTH_MAX else f"{line[: REASON_LENGTH_MAX - 1]}…"


def _explain_behind(situation: Situation) -> Explanation:
    run, head = situation.run, situation.head
    who = "another run" if head is None else f"run {head.id} ({head.status.value})"
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.KEY,
        sentence=f"Key {run.key!r} is busy: {who} goes first.",
        remedy="The end of every run before it in its key; to cancel those is the quick way.",
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
    """What is in the way of a run that is ready, and what would free it."""
    run, lane, held_count = situation.run, situation.lane, situation.held_count
    place = f"Lane {lane.name!r}"
    match gate:
        case Gate.LANE_PAUSED:
            return f"{place} is paused.", "Let the lane go on."
        case Gate.LANE_LIMIT_ZERO:
            return f"{place} has the limit 0.", "Raise the limit of the lane."
        case Gate.NO_LIVE_INSTANCE:
            sentence = "No instance is alive to execute it."
            return sentence, f"Start a program that has registered job {run.job!r}."
        case Gate.LANE_FULL:
            sentence = f"{place} is full: {held_count} of {lane.max_concurrent} slots are taken."
            return sentence, "The end of a run that holds a slot, or a higher limit."
        case _ if run.instance_id is not None:
            sentence = f"{place} has room: its instance takes a slot when it looks next."
            return sentence, "Nothing: it goes on within seconds."
        case _:
            sentence = f"{place} has room: it starts when an instance that knows its job looks."
            # What an instance has registered is not in the database.
            return sentence, f"If that lasts: a live program that has registered job {run.job!r}."


def _describe_history(run: Run) -> str:
    """How a run that has started before came to want a slot again."""
    if run.queue_rank != QueueRank.RESUMED:
        return ""
    if run.token != NO_TOKEN:
        return "Its wait is over and it wants a slot again. "
    # Ordinary parking resets both counts, so they are 0 after a timer or a message woke the run.
    if run.death_count > 0:
        return (
            f"Its executor died ({run.death_count} in a row, {DEATH_COUNT_MAX} are poison)"
            " and it waits for another one. "
        )
    if run.stop_count > 0:
        return (
            "A stop of its process ended its execution before it showed any progress"
            f" ({run.stop_count} in a row, {STOP_COUNT_MAX} are poison)"
            " and it waits for another one. "
        )
    return "It was woken and wants a slot again. "


def _describe_open_interrupts(situation: Situation) -> str:
    """Name the open questions of a run that no process executes. People can answer them."""
    run, asked = situation.run, situation.open_call_ids
    if run.token != NO_TOKEN or not asked:
        return ""
    several = _count_suffix(asked, "open questions")
    return f" Its question {asked[0]!r}{several} is open, and can be answered now."


def _explain_executing(situation: Situation) -> Explanation:
    run = situation.run
    assert run.instance_id is not None
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.RUNNING,
        sentence=f"It runs on instance {run.instance_id}, whose lease is in force.",
        remedy="Nothing: it ends when its job does.",
        since=situation.moved_at,
        holder_ids=(run.instance_id,),
        until=next_deadline(run),
    )


def _explain_waiting(situation: Situation) -> Explanation:
    run, children, asked = situation.run, situation.child_ids, situation.open_call_ids
    assert run.instance_id is not None
    awaited, remedies = [], []
    if asked:
        awaited.append(f"for an answer to {asked[0]!r}{_count_suffix(asked, 'open questions')}")
        remedies.append(f"An answer: `headway run resume {run.id}` gives one.")
    if children:
        awaited.append(f"for child run {children[0]}{_count_suffix(children, 'active children')}")
        remedies.append(f"The end of the child: ask why run {children[0]} does not move.")
    if awaited:
        sentence = f"Its job waits, without a slot, {' and '.join(awaited)}."
    else:
        # How long a job sleeps is not in the database.
        sentence = (
            "Its job sleeps or waits, without a slot: it asks nothing and has no active child."
        )
        remedies.append("Nothing: it goes on by itself, at a time that only its program knows.")
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.CHILD if children else Gate.WAITING,
        sentence=sentence,
        remedy=" ".join(remedies),
        since=situation.moved_at,
        holder_ids=tuple(children) or (run.instance_id,),
        until=next_deadline(run),
    )


def _count_suffix(things: Sequence[str], name: str) -> str:
    return f", the first of its {len(things)} {name}" if len(things) > 1 else ""


def _explain_lease_expired(situation: Situation) -> Explanation:
    run = situation.run
    assert run.instance_id is not None
    return Explanation(
        run_id=run.id,
        status=run.status,
        gate=Gate.LEASE_EXPIRED,
        sentence=f"Its instance {run.instance_id} is gone: the lease has run out.",
        remedy="The sweep of any live instance, which looks every second.",
        since=situation.leases.get(run.instance_id),
        holder_ids=(run.instance_id,),
        until=next_deadline(run),
    )


def _explain_parked(situation: Situation, now: Instant) -> Explanation:
    run = situation.run
    if run.wake_at is None:
        gate, sentence = Gate.INBOX, "It is parked until somebody posts to its inbox."
        remedy = "A message, an answer or a signal to the run."
    elif run.wake_at > now:
        gate, sentence = Gate.NOT_DUE, "It is parked until its time comes, or a message."
        remedy = "Its time, or a message to the run."
    else:
        gate, sentence = Gate.NOT_DUE, "It is parked, and its time has come."
        remedy = "The sweep of any live instance, which looks every second."
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
            "It was asked to end, and its job is cleaning up."
            if is_held and not is_over
            else "It was asked to end, and its job did not do so in time."
        ),
        remedy=(
            "The end of the job; when its time is up, the run is forced to end."
            if is_held and not is_over
            else "The sweep of any live instance, which looks every second."
        ),
        since=situation.moved_at,
        holder_ids=() if run.instance_id is None else (run.instance_id,),
        until=run.cancel_deadline_at,
    )
