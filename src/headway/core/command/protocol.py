"""A command says which rows it concerns, and decides on them once they are locked."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from headway.core.batch_state import BatchState
from headway.core.document import check_name
from headway.core.ids import InstanceId, Key, LaneName, RunId

A_co = TypeVar("A_co", covariant=True)

RUN_ID_LENGTH_MAX: Final = 36


@dataclass(slots=True)
class RowsNeeded:
    """The rows that a batch of commands concerns, for the store to lock in its one order."""

    run_ids: dict[RunId, bool] = field(default_factory=dict)
    """Each with whether a command may end it, so that its key goes to the next."""
    waking_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs that a command may make ready, so that a claim in the same batch may take them."""
    head_keys: dict[Key, None] = field(default_factory=dict)
    whole_keys: dict[Key, None] = field(default_factory=dict)
    """Keys of which every active run is needed."""
    latest_keys: dict[Key, None] = field(default_factory=dict)
    """Keys of which the newest run is needed, ended or not."""
    lanes: dict[LaneName, None] = field(default_factory=dict)
    claims: Counter["ClaimRequest"] = field(default_factory=Counter)
    instance_ids: dict[InstanceId, None] = field(default_factory=dict)
    idempotency_keys: dict[str, None] = field(default_factory=dict)
    inbox_run_ids: dict[RunId, None] = field(default_factory=dict)
    """All that is unread there."""
    inbox_kinds: dict[str, dict[RunId, None]] = field(default_factory=dict)
    """What is unread there of one kind: what else there is may be large."""
    consumed_after_seqs: dict[RunId, int] = field(default_factory=dict)
    """Of these inboxes also what was consumed, after the item with this `seq`."""
    interrupt_run_ids: dict[RunId, None] = field(default_factory=dict)
    saved_keys: dict[Key, None] = field(default_factory=dict)
    schedules: dict[str, None] = field(default_factory=dict)
    workers: dict[str, None] = field(default_factory=dict)
    flows: dict[str, None] = field(default_factory=dict)
    changed_lanes: dict[LaneName, None] = field(default_factory=dict)
    files: dict[tuple[Key, str], dict[str, None]] = field(default_factory=dict)
    """Paths on the ledger, by their key and data directory."""
    output_keys: dict[Key, None] = field(default_factory=dict)
    """Keys of which it is needed whether they have output."""
    pruned_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs of whose keys the heads are needed too, and of busy ones who has started besides; and
    whether their parents are active."""
    task_ids: dict[RunId, None] = field(default_factory=dict)
    """Flow tasks of which all is read that is kept; nothing of it is locked but the run."""
    ended_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs of which it is read how they ended, if they have; nothing is locked."""
    parent_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs of which the number of active children is needed."""
    child_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs whose parents are needed too, should they be flow tasks, and may be made ready."""

    def add_run(self, run_id: RunId, *, may_end: bool = False, may_wake: bool = False) -> None:
        self.run_ids[run_id] = may_end or self.run_ids.get(run_id, False)
        if may_wake:
            self.waking_ids[run_id] = None

    def add_inbox(self, run_id: RunId, kind: str) -> None:
        """What is unread in the inbox of a run, of one kind."""
        self.inbox_kinds.setdefault(kind, {})[run_id] = None

    def add_consumed(self, run_id: RunId, *, after_seq: int) -> None:
        self.consumed_after_seqs[run_id] = min(
            after_seq, self.consumed_after_seqs.get(run_id, after_seq)
        )

    def add_ending_run(self, run_id: RunId, *, may_wake: bool = False) -> None:
        """A run that may end, so that its parent is to be told."""
        self.add_run(run_id, may_end=True, may_wake=may_wake)
        self.child_ids[run_id] = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    lane: LaneName
    instance_id: InstanceId
    jobs: frozenset[str]


@dataclass(frozen=True, slots=True)
class RevisionMismatch:
    """It is not at the revision that the caller has seen; nothing was done."""

    revision: int
    """Where it is; 0: there is none yet."""


def trim_names(command: object, *places: str) -> None:
    """Check these fields of a new command, and keep them trimmed: ` ann ` means `ann`."""
    for place in places:
        name = getattr(command, place)
        trimmed = check_name(name, field=place)
        if trimmed != name:
            object.__setattr__(command, place, trimmed)


class Command(Protocol[A_co]):
    def need(self, needs: RowsNeeded) -> None:
        """Add the rows that `decide` will look at."""
        ...

    def decide(self, world: BatchState) -> A_co:
        """Change `world`, and answer. A refusal changes nothing. Losing a race is an answer."""
        ...
