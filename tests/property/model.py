"""The state of the model, in lists and dicts.

Derivable values (the head of a key, the slots held in a lane, the next deadline) are computed
again at each use, so nothing has to be kept consistent.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from headway.core.batch_state import InboxItem, Instance, SavedKey
from headway.core.command.run.submit import Submit
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.schedule import SavedSchedule

QUEUED, RUNNING, CANCELLING = RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.CANCELLING
ACTIVE: Final = (QUEUED, RUNNING, CANCELLING)


@dataclass(slots=True)
class ModelRun:
    """The values of one run that cannot be derived."""

    command: Submit
    seq: int
    queued_at: Instant
    status: RunStatus = QUEUED
    ready_seq: int | None = None
    wants_slot: bool = False
    """True if the run has started, has no slot and is queued for one."""
    has_slot: bool = False
    instance_id: InstanceId | None = None
    generation: int = 0
    token: str = ""
    attempt: int = 1
    death_count: int = 0
    stop_count: int = 0
    window: int = 0
    unread_count: int = 0
    started_at: Instant | None = None
    ended_at: Instant | None = None
    queue_deadline_at: Instant | None = None
    timeout_us: int | None = None
    run_deadline_at: Instant | None = None
    wake_at: Instant | None = None
    cancel_deadline_at: Instant | None = None
    is_parent: bool = False
    children_ending_since: Instant | None = None
    run_seq: int = 0
    continued_from: RunId | None = None
    documents: dict[str, Any] = field(default_factory=dict)
    """Text comes from a caller and is stored unchanged; a dict is a document of the core."""

    @property
    def id(self) -> RunId:
        return self.command.run_id

    @property
    def key(self) -> Key:
        return self.command.key

    @property
    def lane(self) -> LaneName:
        return self.command.lane

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    @property
    def is_parked(self) -> bool:
        return self.status is RUNNING and not self.token and not self.wants_slot


class Model:
    def __init__(self, *, now: Instant, seq: int) -> None:
        self.now = now
        self.seq = seq
        self.pruned_seq = seq
        self.runs: list[ModelRun] = []
        self.events: list[dict[str, Any]] = []
        self.lanes: dict[LaneName, LaneRow] = {}
        self.instances: dict[InstanceId, Instance] = {}
        self.keys: dict[Key, SavedKey] = {}
        self.schedules: dict[str, SavedSchedule] = {}
        self.remembered: dict[str, tuple[RunId, Submit, Instant]] = {}
        self.inbox: list[InboxItem] = []

    def after(self, seconds: float) -> Instant:
        return Instant(self.now + round(seconds * 1_000_000))

    def run(self, run_id: RunId | None) -> ModelRun | None:
        return next((run for run in self.runs if run.id == run_id), None)

    def held(self, claim: Claim) -> ModelRun | None:
        run = self.run(claim.run_id)
        return run if run is not None and run.token and run.token == claim.token else None

    def active_of(self, key: Key) -> list[ModelRun]:
        return [run for run in self.runs if run.key == key and run.is_active]

    def head_of(self, key: Key) -> ModelRun | None:
        return next(iter(self.active_of(key)), None)

    def lane(self, name: LaneName) -> LaneRow:
        return self.lanes.get(name, LaneRow(name, 3 if name == "main" else 1))

    def held_count(self, lane: LaneName) -> int:
        return sum(run.lane == lane and run.has_slot for run in self.runs)

    def queued_count(self, lane: LaneName) -> int:
        return sum(run.lane == lane and run.status is QUEUED for run in self.runs)

    def free_count(self, name: LaneName) -> int:
        lane = self.lane(name)
        return 0 if lane.is_paused else max(0, lane.max_concurrent - self.held_count(name))

    def rank(self, run: ModelRun) -> int | None:
        if run.wants_slot:
            return 0
        if run.status is not QUEUED:
            return None
        return 1 if self.head_of(run.key) is run else 2

    def ready(self, lane: LaneName) -> list[ModelRun]:
        """Return the claimable runs in the order of claims."""
        waiting = [run for run in self.runs if run.lane == lane and self.rank(run) in (0, 1)]
        return sorted(waiting, key=lambda run: (self.rank(run), run.ready_seq))

    def due_at(self, run: ModelRun) -> Instant | None:
        deadlines = {
            QUEUED: [run.queue_deadline_at],
            RUNNING: [run.run_deadline_at, run.wake_at],
            CANCELLING: [run.cancel_deadline_at, run.children_ending_since],
        }
        current = deadlines.get(run.status, [run.children_ending_since])
        return min((at for at in current if at is not None), default=None)

    def emit(self, run: ModelRun | None, kind: str, payload: Any, **about: str) -> int:
        """Append an event, and return its seq. A text payload comes from a caller, unchanged."""
        self.seq += 1
        event = {"seq": self.seq, "type": kind, "payload": payload, "at": self.now}
        event |= {"run_id": None, "run_seq": None, "key": None, "lane": None, **about}
        if run is not None:
            run.run_seq += 1
            event |= {"run_id": run.id, "run_seq": run.run_seq, "key": run.key, "lane": run.lane}
        self.events.append(event)
        return self.seq

    def move(self, run: ModelRun, status: RunStatus, **details: Any) -> None:
        """Change the status, with its event. An end releases everything, also the key."""
        was_head = self.head_of(run.key) is run
        if status not in ACTIVE and (unread := self.unread_messages(run)):
            messages = [
                {"seq": item.seq, "by": item.by, "message": json.loads(item.payload)}
                for item in unread
            ]
            self.emit(run, "run_messages_unread", {"count": len(unread), "messages": messages[:20]})
        payload = {"from": run.status.value, "to": status.value, **details}
        seq = self.emit(run, "run_state_changed", payload)
        run.status = status
        if run.is_parent and run.children_ending_since is None and status is not RUNNING:
            run.children_ending_since = self.now
        if run.is_active:
            return
        run.ended_at = self.now
        if (
            status is RunStatus.CANCELED
            and run.documents.get("cancel", {}).get("files") == "delete"
        ):
            run.documents["checkpoint"] = None
        run.token, run.instance_id, run.ready_seq = "", None, None
        run.has_slot = run.wants_slot = run.window = False
        run.run_deadline_at = run.wake_at = run.cancel_deadline_at = None
        heir = self.head_of(run.key)
        if was_head and heir is not None:
            heir.ready_seq = seq

    def unread_messages(self, run: ModelRun) -> list[InboxItem]:
        unread = [item for item in self.inbox if item.consumed_generation is None]
        return [item for item in unread if item.run_id == run.id and item.kind == "message"]

    def make_ready(self, run: ModelRun, kind: str, payload: dict[str, Any]) -> None:
        run.wake_at = None
        run.wants_slot = True
        run.ready_seq = self.emit(run, kind, payload)

    def row(self, run: ModelRun) -> dict[str, Any]:
        """Return the row that the store must have for the run."""
        rank = self.rank(run)
        names = ("id", "key", "lane", "job", "mode", "recovery", "parent_id")
        command = {name: getattr(run.command, name if name != "id" else "run_id") for name in names}
        stored = {name: getattr(run, name) for name in _STORED}
        documents = dict.fromkeys(_DOCUMENTS) | run.documents
        is_head = run.is_active and self.head_of(run.key) is run
        derived = {
            "head_key": run.key if is_head else None,
            "waiting_key": run.key if run.is_active and not is_head else None,
            "queue_rank": rank,
            "slot": run.lane if run.has_slot else None,
            "window": int(run.window),
            "due_at": self.due_at(run),
            "child_of": run.command.parent_id if run.is_active else None,
            "is_parent": int(run.is_parent),
        }
        row = {**command, **stored, **derived, **documents}
        if run.continued_from is None:
            del row["continued_from"]  # Decided at the start of the run; unset before.
        return row


_DOCUMENTS: Final = ("params", "progress", "checkpoint", "result", "error", "cancel", "traceback")
_STORED: Final = (
    *("seq", "status", "ready_seq", "instance_id", "generation", "token", "attempt"),
    *(
        "death_count",
        "stop_count",
        "unread_count",
        "queued_at",
        "started_at",
        "ended_at",
        "queue_deadline_at",
        "timeout_us",
        "run_deadline_at",
    ),
    *("wake_at", "cancel_deadline_at", "run_seq", "continued_from", "children_ending_since"),
)
