"""What is, in lists and dicts. Whatever can be derived is derived anew each time it is asked for:
who is the head of a key, what a lane holds, what is due. So there is nothing to keep in step."""

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
class Told:
    """One run, as far as it cannot be derived."""

    command: Submit
    seq: int
    queued_at: Instant
    status: RunStatus = QUEUED
    ready_seq: int | None = None
    wants_slot: bool = False
    """It ran already, has no slot, and stands in the queue for one."""
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
    """Text is what a caller gave, to be kept as it is; a dict is the core's own document."""

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
        self.runs: list[Told] = []
        self.events: list[dict[str, Any]] = []
        self.lanes: dict[LaneName, LaneRow] = {}
        self.instances: dict[InstanceId, Instance] = {}
        self.keys: dict[Key, SavedKey] = {}
        self.schedules: dict[str, SavedSchedule] = {}
        self.remembered: dict[str, tuple[RunId, Submit, Instant]] = {}
        self.inbox: list[InboxItem] = []

    def after(self, seconds: float) -> Instant:
        return Instant(self.now + round(seconds * 1_000_000))

    def run(self, run_id: RunId | None) -> Told | None:
        return next((run for run in self.runs if run.id == run_id), None)

    def held(self, claim: Claim) -> Told | None:
        run = self.run(claim.run_id)
        return run if run is not None and run.token and run.token == claim.token else None

    def active_of(self, key: Key) -> list[Told]:
        return [run for run in self.runs if run.key == key and run.is_active]

    def head_of(self, key: Key) -> Told | None:
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

    def rank(self, run: Told) -> int | None:
        if run.wants_slot:
            return 0
        if run.status is not QUEUED:
            return None
        return 1 if self.head_of(run.key) is run else 2

    def ready(self, lane: LaneName) -> list[Told]:
        """Those that may be claimed, in the order in which they are."""
        waiting = [run for run in self.runs if run.lane == lane and self.rank(run) in (0, 1)]
        return sorted(waiting, key=lambda run: (self.rank(run), run.ready_seq))

    def due_at(self, run: Told) -> Instant | None:
        clocks = {
            QUEUED: [run.queue_deadline_at],
            RUNNING: [run.run_deadline_at, run.wake_at],
            CANCELLING: [run.cancel_deadline_at, run.children_ending_since],
        }
        ringing = clocks.get(run.status, [run.children_ending_since])
        return min((at for at in ringing if at is not None), default=None)

    def emit(self, run: Told | None, kind: str, payload: Any, **about: str) -> int:
        """Append an event; its seq. A payload of text is a caller's, kept as it is."""
        self.seq += 1
        event = {"seq": self.seq, "type": kind, "payload": payload, "at": self.now}
        event |= {"run_id": None, "run_seq": None, "key": None, "lane": None, **about}
        if run is not None:
            run.run_seq += 1
            event |= {"run_id": run.id, "run_seq": run.run_seq, "key": run.key, "lane": run.lane}
        self.events.append(event)
        return self.seq

    def move(self, run: Told, status: RunStatus, **details: Any) -> None:
        """Change the state, with its event. An end frees all, and the next of the key is ready."""
        was_head = self.head_of(run.key) is run
        if status not in ACTIVE and (unread := self.unread_messages(run)):
            told = [
                {"seq": item.seq, "by": item.by, "message": json.loads(item.payload)}
                for item in unread
            ]
            self.emit(run, "run_messages_unread", {"count": len(unread), "messages": told[:20]})
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

    def unread_messages(self, run: Told) -> list[InboxItem]:
        unread = [item for item in self.inbox if item.consumed_generation is None]
        return [item for item in unread if item.run_id == run.id and item.kind == "message"]

    def make_ready(self, run: Told, kind: str, payload: dict[str, Any]) -> None:
        run.wake_at = None
        run.wants_slot = True
        run.ready_seq = self.emit(run, kind, payload)

    def row(self, run: Told) -> dict[str, Any]:
        """All that the store must know of the run."""
        rank = self.rank(run)
        names = ("id", "key", "lane", "job", "mode", "recovery", "parent_id")
        command = {name: getattr(run.command, name if name != "id" else "run_id") for name in names}
        kept = {name: getattr(run, name) for name in _KEPT}
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
        row = {**command, **kept, **derived, **documents}
        if run.continued_from is None:
            del row["continued_from"]  # Its start decides; where there is none, it says nothing.
        return row


_DOCUMENTS: Final = ("params", "progress", "checkpoint", "result", "error", "cancel", "traceback")
_KEPT: Final = (
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
