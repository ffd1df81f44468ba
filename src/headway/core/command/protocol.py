"""A command names the rows that it concerns, and decides on them once they are locked.

Every command describes itself: its class declares `may_free_capacity` and `document_length`, so
that neither the writer nor the engine has a list of commands. Neither attribute has a default:
applying a command that lacks one is a type error.
"""

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from headway.core.batch_state import BatchState
from headway.core.ids import InstanceId, Key, LaneName, RunId
from headway.core.run.run import Claim, Run

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

RUN_ID_LENGTH_MAX: Final = 36


@dataclass(slots=True)
class RowsNeeded:
    """The rows that a batch of commands needs. The store always locks them in the same order."""

    run_ids: dict[RunId, bool] = field(default_factory=dict)
    """The runs to lock. The value is True if a command may end the run.

    When a run ends, its key passes to the next run.
    """
    waking_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs that a command may make ready, so that a claim in the same batch may take them."""
    head_keys: dict[Key, None] = field(default_factory=dict)
    """Keys whose head is needed."""
    whole_keys: dict[Key, None] = field(default_factory=dict)
    """Keys whose active runs are all needed."""
    latest_keys: dict[Key, None] = field(default_factory=dict)
    """Keys whose newest run is needed, even if that run has ended."""
    lanes: dict[LaneName, None] = field(default_factory=dict)
    claims: Counter["ClaimRequest"] = field(default_factory=Counter)
    """Maps each claim request to the number of runs that it may take."""
    instance_ids: dict[InstanceId, None] = field(default_factory=dict)
    idempotency_keys: dict[str, None] = field(default_factory=dict)
    inbox_run_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs whose unread inbox items of every kind are needed."""
    inbox_kinds: dict[str, dict[RunId, None]] = field(default_factory=dict)
    """Maps a kind of inbox item to the runs whose unread items of that kind are needed.

    Items of other kinds are not loaded, because they may be large.
    """
    consumed_after_seqs: dict[RunId, int] = field(default_factory=dict)
    """Maps each run to a `seq`. The run's consumed items after that `seq` are needed too."""
    interrupt_run_ids: dict[RunId, None] = field(default_factory=dict)
    saved_keys: dict[Key, None] = field(default_factory=dict)
    schedules: dict[str, None] = field(default_factory=dict)
    workers: dict[str, None] = field(default_factory=dict)
    flows: dict[str, None] = field(default_factory=dict)
    changed_lanes: dict[LaneName, None] = field(default_factory=dict)
    """Lanes whose rows a command may change."""
    files: dict[tuple[Key, str], dict[str, None]] = field(default_factory=dict)
    """Paths whose file records are needed, by key and data directory."""
    output_keys: dict[Key, None] = field(default_factory=dict)
    """Keys to check for existing output files."""
    pruned_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs that may be pruned.

    For each run, the store also loads the head of the run's key, and whether the run's parent is
    active. If the key is busy, it also loads the key's newest started run that is not listed here.
    """
    task_ids: dict[RunId, None] = field(default_factory=dict)
    """Flow tasks whose whole stored state is read. Only their runs are locked."""
    ended_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs whose outcome is read if they have ended. They are not locked."""
    parent_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs whose number of active children is needed."""
    child_ids: dict[RunId, None] = field(default_factory=dict)
    """Runs that may end. If the run is a flow task, its parent is needed and may become ready."""

    def add_run(self, run_id: RunId, *, may_end: bool = False, may_wake: bool = False) -> None:
        self.run_ids[run_id] = may_end or self.run_ids.get(run_id, False)
        if may_wake:
            self.waking_ids[run_id] = None

    def add_inbox(self, run_id: RunId, kind: str) -> None:
        """Add a run's unread inbox items of one kind."""
        self.inbox_kinds.setdefault(kind, {})[run_id] = None

    def add_consumed(self, run_id: RunId, *, after_seq: int) -> None:
        self.consumed_after_seqs[run_id] = min(
            after_seq, self.consumed_after_seqs.get(run_id, after_seq)
        )

    def add_ending_run(self, run_id: RunId, *, may_wake: bool = False) -> None:
        """Add a run that may end, and its parent, which is notified if the run ends."""
        self.add_run(run_id, may_end=True, may_wake=may_wake)
        self.child_ids[run_id] = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    lane: LaneName
    instance_id: InstanceId
    jobs: frozenset[str]


@dataclass(frozen=True, slots=True)
class RevisionMismatch:
    """The row is not at the revision that the caller expects. Nothing was changed."""

    revision: int
    """The current revision, or 0 if there is no row yet."""


class Command(Protocol[A_co]):
    """A write that the store applies. Its result is an `A_co`."""

    @property
    def may_free_capacity(self) -> bool:
        """True if the command may make a run ready or free a slot. Normally a class attribute.

        The engine then claims runs in the same transaction.
        """
        ...

    def document_length(self) -> int:
        """Return the length of the documents that the command writes, in characters.

        The writer limits the sum over a batch, because even a few commands may write a lot.
        """
        ...

    def need(self, rows: RowsNeeded) -> None:
        """Add the rows that `decide` reads."""
        ...

    def decide(self, batch: BatchState) -> A_co:
        """Change `batch`, and return the result of the command.

        A refusal changes nothing. Losing a race is a result, not an exception.
        """
        ...


@dataclass(frozen=True, slots=True)
class HolderCommand(Generic[A]):
    """A command of the process that holds a run. It has no effect if its claim is stale.

    A command that returns the run's state even if the claim is stale has its own `decide`.
    """

    claim: Claim

    stale_answer: ClassVar[Any] = False
    """The result if the claim is stale. A command whose result is not a bool overrides this."""

    def need(self, rows: RowsNeeded) -> None:
        rows.add_run(self.claim.run_id)

    def decide(self, batch: BatchState) -> A:
        run = batch.held_run(self.claim)
        if run is None:
            answer: A = self.stale_answer
            return answer
        return self.decide_held(batch, run)

    # Not an ABC, whose metaclass would slow down every `isinstance` with a command.
    @abstractmethod
    def decide_held(self, batch: BatchState, run: Run) -> A:
        """Change `batch`, and return the result. The claim is valid, and `run` is its run."""
