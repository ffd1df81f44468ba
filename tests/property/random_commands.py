"""Random commands: most fit the current state, some come late or make no sense."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from headway.core.batch_state import Instance
from headway.core.command.admin.instance import (
    DeclareDead,
    HandOver,
    RegisterInstance,
    ReleaseOrphan,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.admin.lane_limits import ClearRuns, ConfigureLanes, ProposeLimit, SetLane
from headway.core.command.admin.prune import PruneEvents, PruneIdempotencyKeys, PruneRuns
from headway.core.command.admin.save_key import DeleteKey, SaveKey
from headway.core.command.admin.schedules import FireSchedule
from headway.core.command.run.cancel import ForceCancel, RequestCancel, StopKey
from headway.core.command.run.child import (
    CancelChild,
    ConfirmChildrenEnded,
    StartChild,
    make_child_id,
)
from headway.core.command.run.claim import ClaimRuns
from headway.core.command.run.end_run import Expire
from headway.core.command.run.inbox import ConsumeInbox, PostToInbox
from headway.core.command.run.report import (
    AppendEvents,
    JobEvent,
    SaveCheckpoint,
    SaveProgress,
    SetWindow,
)
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.command.run.submit import Submit
from headway.core.command.run.wait import Park, ReleaseSlot, RequestSlot, Retry, Wake
from headway.core.document import Document
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId, add_seconds
from headway.core.run.admission import OnConflict
from headway.core.run.run import Claim, FilesOnCancel, Recovery, RunMode
from headway.core.run.window import Delivery, Window
from tests.property.model import CANCELLING, RUNNING, ModelRun
from tests.property.oracle import Oracle
from tests.property.schedule_model import SCHEDULES

T = TypeVar("T")

KEYS: Final = [Key(name) for name in ("ann", "Ann", "bob", "cid", "dan", "ключ 🔑")]
LANES: Final = [LaneName(name) for name in ("main", "main", "main", "main", "cron", "side")]
JOBS: Final = ["mail", "scan"]
DOCUMENTS: Final = [
    Document(text)
    for text in ("{}", '{"n":1}', '[1,2.5,null,"🚆"]', r'{"a":"50 % of \"x\" \\ :b ?1 $1 %s"}')
]
ERRORS: Final = [Document('{"code":"boom","message":"it\'s 100 % gone"}')]
UNKNOWN_RUN: Final = RunId("nobody")
UNKNOWN_INSTANCE: Final = InstanceId("nowhere")
JOBS_AND_LANES: Final = [(job, lane) for job in JOBS for lane in LANES]
CLAIMABLE_JOBS: Final = [frozenset(jobs) for jobs in (JOBS, JOBS, JOBS[:1], JOBS[1:])]
POLICIES: Final = [*[OnConflict.ENQUEUE] * 3, *OnConflict]
# Further fields of a submission; mostly none.
VARIATIONS: Final[list[dict[str, Any]]] = [
    *[{}] * 4,
    *({"mode": RunMode.CONTINUE, "params": params} for params in DOCUMENTS),
    {"idempotency_key": "once", "fingerprint": "a"},
    {"idempotency_key": "once", "fingerprint": "b", "params": DOCUMENTS[1]},
    {"idempotency_key": "Once", "fingerprint": "a", "mode": RunMode.CONTINUE},
    {"queue_timeout_s": 1.0, "timeout_s": 7.5},
    {"timeout_s": 1.0, "recovery": Recovery.FAIL},
    {"queue_timeout_s": 5.0, "mode": RunMode.CONTINUE},
    {"parent_id": UNKNOWN_RUN, "is_unattended": True},
    {"mode": RunMode.CONTINUE, "is_unattended": True, "by": "eve"},
]


@dataclass
class CommandDrawer:
    """Draws the next command, based on the state of the oracle."""

    oracle: Oracle
    numbers: "count[int]" = field(default_factory=count)
    claims: list[Claim] = field(default_factory=list)
    """Every claim so far."""
    secret_tokens: set[str] = field(default_factory=set)
    """The tokens of claims that were not returned to a caller yet."""
    draw: Callable[[st.SearchStrategy[Any]], Any] = field(init=False)

    def command(self) -> st.SearchStrategy[Any]:
        return _draw_command(self, None)

    def of_kind(self, make: "Callable[[CommandDrawer], Any]") -> st.SearchStrategy[Any]:
        return _draw_command(self, make)

    def one_of(self, choices: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(choices))
        return chosen

    def maybe(self, *choices: T) -> T | None:
        return self.one_of((None, None, *choices))

    def run_id(self) -> RunId:
        active = [run.id for run in self.oracle.runs if run.is_active]
        return self.one_of([*active * 3, *(run.id for run in self.oracle.runs), UNKNOWN_RUN])

    def claim(self) -> Claim:
        held = [
            Claim(run.id, run.token)
            for run in self.oracle.runs
            if run.token and run.token not in self.secret_tokens
        ]
        wrong = [Claim(UNKNOWN_RUN, "x"), *(Claim(run.id, "") for run in self.oracle.runs[-1:])]
        returned = [claim for claim in self.claims if claim.token not in self.secret_tokens]
        return self.one_of([*held * 4, *returned[-3:], *wrong])

    def instance_id(self) -> InstanceId:
        registered = list(self.oracle.instances)
        alive = [row.id for row in self.oracle.instances.values() if self._is_alive(row)]
        return self.one_of([*alive * 4, *registered, UNKNOWN_INSTANCE])

    def _is_alive(self, row: Instance) -> bool:
        return not row.is_dead and row.lease_expires_at > self.oracle.now

    def instant(self, *seconds: float) -> Instant:
        return add_seconds(self.oracle.now, seconds=self.one_of(seconds))

    def submit(self) -> Submit:
        job, lane = self.one_of(JOBS_AND_LANES)
        return Submit(
            run_id=RunId(f"r{next(self.numbers)}"),
            key=self.one_of(KEYS),
            job=job,
            lane=lane,
            on_conflict=self.one_of(POLICIES),
            **self.one_of(VARIATIONS),
        )

    def submit_again(self) -> Submit:
        """Repeat a submission, as a caller does that got no answer."""
        earlier = [submission for _, submission, _ in self.oracle.remembered.values()]
        if not earlier:
            return self.submit()
        return replace(self.one_of(earlier), run_id=RunId(f"r{next(self.numbers)}"))

    def claim_runs(self) -> ClaimRuns:
        likely = [
            lane for lane in LANES if self.oracle.ready(lane) and self.oracle.free_count(lane)
        ]
        return ClaimRuns(
            lanes=self.one_of(
                [*((lane,) for lane in (*likely * 4, *LANES)), tuple(sorted(set(LANES)))]
            ),
            instance_id=self.instance_id(),
            jobs=self.one_of(CLAIMABLE_JOBS),
            count=self.one_of([2, 1, 4]),
            nonce=f"n{next(self.numbers)}",
        )

    def settle(self) -> Any:
        claim = self.claim()
        run = self.oracle.held(claim)
        complete = Complete(claim, self.one_of(DOCUMENTS))
        confirms = [ConfirmCancel(claim)] * (1 if run is None or run.status is RUNNING else 4)
        fail = Fail(claim, self.one_of(ERRORS), self.one_of([None, "Traceback\n  of an end"]))
        return self.one_of([complete, fail, *confirms])

    def request_cancel(self) -> RequestCancel | StopKey:
        more: dict[str, Any] = self.one_of(
            [
                {},
                {"grace_s": 0.0, "files": FilesOnCancel.DELETE},
                {"reason": 'enough of "it"', "by": "eve"},
            ]
        )
        if self.one_of([False, False, False, True]):
            return StopKey(key=self.one_of(KEYS), **more)
        return RequestCancel(run_id=self.run_id(), **more)

    def family(self) -> Any:
        ending = [run.id for run in self.oracle.runs if run.children_ending_since is not None]
        if not ending or self.draw(st.booleans()):
            return self.start_child()
        parent_id = self.one_of(ending)
        left = [run.id for run in self.oracle.children_of(parent_id)]
        if any(run.status is not CANCELLING for run in self.oracle.children_of(parent_id)):
            return CancelChild(
                run_id=self.one_of([*left, UNKNOWN_RUN]), parent_id=parent_id, by="eve"
            )
        return ConfirmChildrenEnded(parent_id)

    def start_child(self) -> StartChild:
        claim, step, attempt = self.claim(), self.one_of(["a", "b"]), 1
        parent = self.oracle.run(claim.run_id)
        keys = KEYS
        if parent is not None:
            keys, attempt = [key for key in KEYS if key != parent.key], parent.attempt
        submission = Submit(
            run_id=make_child_id(claim.run_id, step, attempt),
            key=self.one_of(keys),
            job=self.one_of([*JOBS[:1] * 4, *JOBS]),
            lane=self.one_of(LANES),
            on_conflict=self.one_of([OnConflict.ENQUEUE, OnConflict.REJECT, OnConflict.REPLACE]),
            parent_id=claim.run_id,
        )
        return StartChild(
            claim=claim,
            attempt=attempt,
            step=step,
            submission=submission,
            active_count_max=self.one_of([9, 1]),
        )

    def push(self) -> Any:
        due = [run.id for run in self.oracle.runs if (run.is_parked or self._is_due(run))]
        run_id = self.one_of(due) if due else self.run_id()
        return self.one_of([Wake(run_id), Expire(run_id), ForceCancel(run_id)])

    def _is_due(self, run: ModelRun) -> bool:
        due_at = self.oracle.due_at(run)
        return due_at is not None and due_at <= self.oracle.now

    def wait(self) -> Any:
        claim = self.claim()
        run = self.oracle.held(claim)
        has_slot = run is None or run.has_slot
        wake_at = None if self.one_of([True, False]) else self.instant(-1, 0, 2)
        likely = ReleaseSlot(claim) if has_slot else RequestSlot(claim)
        trace = self.one_of([None, "Traceback\n  of an attempt"])
        retry = Retry(claim, Document('{"code":"error"}'), self.one_of([0.0, 0.5, 2.0]), trace)
        handed = HandOver(
            claim,
            has_progressed=self.one_of([False, False, True]),
            has_waited=self.one_of([False, True]),
        )
        return self.one_of(
            [likely, likely, Park(claim, wake_at), RequestSlot(claim), retry, handed]
        )

    def report(self) -> Any:
        claim, document = self.claim(), self.one_of(DOCUMENTS)
        return self.one_of(
            [
                SaveProgress(claim, document),
                SaveCheckpoint(claim, document),
                AppendEvents(claim, (JobEvent("run_log", document),) * self.one_of([1, 2])),
                SetWindow(claim, Window.STREAMING),
                SetWindow(claim, self.one_of(list(Window))),
            ]
        )

    def exchange(self) -> Any:
        if self.draw(st.booleans()):
            kind = self.one_of(["message", "message", "signal"])
            return ConsumeInbox(self.claim(), kind, open_window=self.one_of([True, False]))
        later = {"delivery": Delivery.WHEN_LISTENING}
        more: dict[str, Any] = self.one_of(
            [{}, {"kind": "signal", "by": "eve", "call_id": "c1"}, later, later]
        )
        return PostToInbox(run_id=self.run_id(), payload=self.one_of(DOCUMENTS), **more)

    def register(self) -> RegisterInstance:
        instance_id = InstanceId(f"i{next(self.numbers)}")
        ttl_s = self.one_of([100.0, 100.0, 15.0])
        return RegisterInstance(instance_id=instance_id, host="host", pid=7, ttl_s=ttl_s)

    def renew(self) -> RenewInstance:
        return RenewInstance(instance_id=self.instance_id(), ttl_s=self.one_of([100.0, 2.0]))

    def bury(self) -> Any:
        instance_id = self.instance_id()
        return self.one_of(
            [
                DeclareDead(instance_id),
                DeclareDead(instance_id, is_proven=True),
                RetireInstance(instance_id),
            ]
        )

    def release(self) -> ReleaseOrphan:
        instances = self.oracle.instances
        held = [(run.id, run.instance_id) for run in self.oracle.runs if run.instance_id]
        orphans = [(r, i) for r, i in held if i not in instances or instances[i].is_dead]
        run_id, instance_id = self.one_of(
            [*orphans * 4, *held, (self.run_id(), self.instance_id())]
        )
        return ReleaseOrphan(run_id, instance_id)

    def clear(self) -> ClearRuns:
        lane = self.one_of(LANES)
        here = [run.id for run in self.oracle.runs if run.lane == lane]
        runs = [UNKNOWN_RUN, *here, *(run.id for run in self.oracle.runs)]
        run_ids = self.draw(st.lists(st.sampled_from(runs), min_size=1, max_size=5, unique=True))
        return ClearRuns(tuple(run_ids), lane, self.one_of(["", "eve"]))

    def set_lane(self) -> SetLane | ProposeLimit | ConfigureLanes:
        if self.one_of([False, False, False, True]):
            names = self.draw(st.lists(st.sampled_from(LANES), min_size=1, unique=True))
            return ConfigureLanes(tuple((name, self.one_of([0, 2, 3, 5])) for name in names))
        if self.one_of([False, False, False, True]):
            return ProposeLimit(self.one_of(LANES), self.one_of([2, 3]))
        changes: dict[str, Any] = self.one_of(
            [
                *({"max_concurrent": limit} for limit in (8, 3, 1, 0)),
                *({"max_queued": limit} for limit in (-1, 0, 2)),
                *({"is_paused": is_paused} for is_paused in (False, True)),
                {"max_concurrent": 5, "max_queued": 1, "expected_revision": 1},
            ]
        )
        return SetLane(name=self.one_of(LANES), **changes)

    def key_row(self) -> Any:
        key = self.one_of(KEYS)
        saved = SaveKey(
            key=key,
            job=self.one_of(JOBS),
            params=self.one_of(DOCUMENTS),
            expected_revision=self.maybe(0, *self._revisions(key)),
        )
        return self.one_of([saved, saved, DeleteKey(key)])

    def _revisions(self, key: Key) -> list[int]:
        saved = self.oracle.keys.get(key)
        return [] if saved is None else [saved.revision]

    def prune(self) -> Any:
        runs = [UNKNOWN_RUN, *(run.id for run in self.oracle.runs)]
        run_ids = self.draw(st.lists(st.sampled_from(runs), min_size=1, max_size=4, unique=True))
        seq = max(0, self.oracle.seq - self.one_of([0, 5, 20, -3]))
        ended_before, before = self.instant(-2, 0, 1), self.instant(-5, -1)
        return self.one_of(
            [
                PruneRuns(tuple(run_ids), ended_before=ended_before),
                PruneEvents(seq, self.one_of([10_000, 3])),
                PruneIdempotencyKeys(("unknown", *self.oracle.remembered), recorded_before=before),
            ]
        )

    def fire(self) -> FireSchedule:
        unchanged = [schedule for schedule in SCHEDULES if self.oracle.is_as_saved(schedule)]
        return FireSchedule(
            self.one_of([*unchanged * 4, *SCHEDULES]), RunId(f"r{next(self.numbers)}")
        )


# The number of entries is the weight of a kind of command.
_ANYTIME: Final = [
    *[CommandDrawer.submit] * 8,
    *[CommandDrawer.set_lane] * 2,
    *[CommandDrawer.fire] * 3,
    *[
        CommandDrawer.submit_again,
        CommandDrawer.claim_runs,
        CommandDrawer.settle,
        CommandDrawer.wait,
        CommandDrawer.report,
    ],
    *[
        CommandDrawer.request_cancel,
        CommandDrawer.push,
        CommandDrawer.exchange,
        CommandDrawer.release,
    ],
    *[CommandDrawer.register] * 2,
    *[
        CommandDrawer.renew,
        CommandDrawer.bury,
        CommandDrawer.key_row,
        CommandDrawer.prune,
        CommandDrawer.clear,
    ],
]
_WITH_SLOTS: Final = [CommandDrawer.fire] * 8
_WITH_READY_RUNS: Final = [CommandDrawer.claim_runs] * 8
_WITH_HELD_RUNS: Final = [
    *[CommandDrawer.settle] * 4,
    *[CommandDrawer.wait] * 5,
    *[CommandDrawer.report] * 4,
    *[CommandDrawer.exchange] * 3,
    *[CommandDrawer.family] * 4,
    *[CommandDrawer.request_cancel, CommandDrawer.release, CommandDrawer.push],
]


@st.composite
def _draw_command(
    draw: st.DrawFn, drawing: CommandDrawer, make: Callable[[CommandDrawer], Any] | None
) -> Any:
    drawing.draw = draw
    if make is not None:
        return make(drawing)
    has_ready = any(drawing.oracle.ready(lane) for lane in LANES)
    has_held = any(run.token for run in drawing.oracle.runs)
    kinds = [
        *(_WITH_HELD_RUNS if has_held else []),
        *(_WITH_READY_RUNS if has_ready else []),
        *(_WITH_SLOTS if any(map(drawing.oracle.undecided, SCHEDULES)) else []),
        *_ANYTIME,
    ]
    return drawing.one_of(kinds)(drawing)
