"""The rules that every run must satisfy, whatever other runs do; a superset of `Run.check`.

Violations are reported, not asserted, because the doctor examines databases that may be damaged.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from headway.core.doctor.finding import Finding, violation
from headway.core.run.deadlines import next_deadline
from headway.core.run.run import DEATH_COUNT_MAX, NO_TOKEN, STOP_COUNT_MAX, QueueRank, Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE, TERMINAL

IN_LANE_RANKS: Final = (QueueRank.RESUMED, QueueRank.READY)
EXECUTING_STATUSES: Final = frozenset({RunStatus.RUNNING, RunStatus.CANCELLING})


class Rule(NamedTuple):
    promise: str
    statuses: frozenset[RunStatus]
    """The statuses of the runs that the rule applies to."""
    is_broken: Callable[[Run], bool]
    sentence: str


RULES: Final = (
    Rule("I7", TERMINAL, lambda run: run.ended_at is None, "it has ended, but has no end time"),
    Rule("I7", ACTIVE, lambda run: run.ended_at is not None, "it has an end time, but is active"),
    Rule(
        "I8",
        TERMINAL,
        lambda run: run.head_key is not None or run.waiting_key is not None,
        "it has ended, but still has its key",
    ),
    Rule(
        "I8",
        TERMINAL,
        lambda run: run.queue_rank is not None or run.ready_seq is not None,
        "it has ended, but is still in the queue of its lane",
    ),
    Rule("I8", TERMINAL, lambda run: run.slot is not None, "it has ended, but still holds a slot"),
    Rule(
        "I2",
        TERMINAL,
        lambda run: run.token != NO_TOKEN or run.instance_id is not None,
        "it has ended, but its claim is still valid",
    ),
    Rule(
        "I3",
        ACTIVE,
        lambda run: run.head_key is None and run.waiting_key is None,
        "it is active, but neither the head of its key nor behind it, so it will never start",
    ),
    Rule(
        "I4",
        ACTIVE,
        lambda run: run.head_key is not None and run.waiting_key is not None,
        "it is the head of its key, and also waits behind the head",
    ),
    Rule(
        "I4",
        ACTIVE,
        lambda run: run.head_key not in (None, run.key) or run.waiting_key not in (None, run.key),
        "it is in the queue of a key that is not its own",
    ),
    Rule(
        "I4",
        ACTIVE,
        lambda run: run.head_key is None and (run.slot is not None or run.token != NO_TOKEN),
        "it has a slot or a claim, but is not the head of its key",
    ),
    Rule(
        "I9",
        ACTIVE,
        lambda run: (run.queue_rank == QueueRank.BEHIND) != (run.waiting_key is not None),
        "its rank in the queue contradicts whether it waits behind another run of its key",
    ),
    Rule(
        "I9",
        ACTIVE,
        lambda run: (run.ready_seq is not None) != (run.queue_rank in IN_LANE_RANKS),
        "it is in the queue of its lane without a position, or has a position outside the queue",
    ),
    Rule(
        "I2",
        ACTIVE,
        lambda run: (run.instance_id is None) != (run.token == NO_TOKEN),
        "it has a claim that no instance holds, or an instance without a claim",
    ),
    Rule(
        "I5",
        ACTIVE,
        lambda run: run.slot not in (None, run.lane),
        "it holds a slot of a lane that is not its own",
    ),
    Rule(
        "I5",
        ACTIVE,
        lambda run: run.slot is not None and run.queue_rank is not None,
        "it holds a slot, and is in the queue for another",
    ),
    Rule(
        "I8",
        ACTIVE,
        lambda run: run.slot is not None and run.token == NO_TOKEN,
        "it holds a slot, but no instance holds its claim",
    ),
    Rule(
        "I10",
        frozenset({RunStatus.QUEUED}),
        lambda run: run.queue_rank not in (QueueRank.READY, QueueRank.BEHIND),
        "it is queued, but has no rank among the runs that never started",
    ),
    Rule(
        "I12",
        frozenset({RunStatus.QUEUED}),
        lambda run: run.started_at is not None or run.token != NO_TOKEN,
        "it is queued, but has a start time or a claim",
    ),
    Rule(
        "I12",
        EXECUTING_STATUSES,
        lambda run: run.started_at is None,
        "it is running, but has no start time",
    ),
    Rule(
        "I9",
        EXECUTING_STATUSES,
        lambda run: run.queue_rank in (QueueRank.READY, QueueRank.BEHIND),
        "it has started, but is queued among the runs that never started",
    ),
    Rule(
        "I11",
        frozenset({RunStatus.CANCELLING}),
        lambda run: run.cancel_deadline_at is None or run.token == NO_TOKEN,
        "it is cancelling, but has no deadline, or no instance that holds it",
    ),
    Rule(
        "I11",
        ACTIVE,
        lambda run: run.child_of != run.parent_id,
        "it is active, but not marked as a child of its parent",
    ),
    Rule(
        "I8",
        TERMINAL,
        lambda run: run.child_of is not None,
        "it has ended, but is still marked as a child",
    ),
    Rule(
        "I11",
        TERMINAL | {RunStatus.CANCELLING},
        lambda run: bool(run.is_parent) != (run.children_ending_since is not None),
        "it has ended or is cancelling, but the sweep would not end its children",
    ),
    Rule(
        "I17",
        ACTIVE,
        lambda run: run.death_count >= DEATH_COUNT_MAX or run.stop_count >= STOP_COUNT_MAX,
        "it is active, but has reached the limit of executions without progress",
    ),
    Rule(
        "I18",
        frozenset(RunStatus),
        lambda run: run.due_at != next_deadline(run),
        "its next deadline is stored incorrectly, so the sweep acts too early, too late or never",
    ),
)


def check_run(run: Run) -> Iterator[Finding]:
    for rule in RULES:
        if run.status in rule.statuses and rule.is_broken(run):
            yield violation(rule.promise, describe_run(run), rule.sentence)


def describe_run(run: Run) -> str:
    return f"run {run.id}"
