"""Random commands: most make sense for what is going on, some come late or are nonsense."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from headway.core.command.cancel import ForceCancel, RequestCancel
from headway.core.command.claim import ClaimRuns
from headway.core.command.expire import Expire
from headway.core.command.inbox import ConsumeInbox, PostToInbox
from headway.core.command.instance import (
    DeclareDead,
    RegisterInstance,
    ReleaseOrphan,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.key_row import DeleteKey, SaveKey
from headway.core.command.lane import SetLane
from headway.core.command.prune import ForgetSubmissions, PruneEvents, PruneRuns
from headway.core.command.report import AppendEvent, SaveCheckpoint, SaveProgress, SetInteractive
from headway.core.command.settle import Complete, ConfirmCancel, Fail
from headway.core.command.submit import Submit
from headway.core.command.wait import GiveSlotBack, Park, Wake, WantSlot
from headway.core.document import Document
from headway.core.ids import InstanceId, Instant, Key, LaneName, RunId, later
from headway.core.run.admission import OnConflict
from headway.core.run.run import Claim, Files, Mode, Recovery
from tests.property.oracle import Oracle

T = TypeVar("T")

KEYS: Final = [Key("ann"), Key("Ann"), Key("bob"), Key("ключ 🔑")]
LANES: Final = [LaneName("main"), LaneName("main"), LaneName("cron"), LaneName("side")]
JOBS: Final = ["mail", "scan"]
DOCUMENTS: Final = [
    Document(text)
    for text in ("{}", '{"n":1}', '[1,2.5,null,"🚆"]', r'{"a":"50 % of \"x\" \\ :b ?1 $1 %s"}')
]
ERRORS: Final = [Document('{"code":"boom","message":"it\'s 100 % gone"}')]
NOBODY: Final = RunId("nobody")
NO_INSTANCE: Final = InstanceId("nowhere")


@dataclass
class Drawing:
    """Draws the next command, given what the oracle says is going on."""

    oracle: Oracle
    numbers: "count[int]" = field(default_factory=count)
    claims: list[Claim] = field(default_factory=list)
    """Every claim that was ever given."""
    draw: Callable[[st.SearchStrategy[Any]], Any] = field(init=False)

    def command(self) -> st.SearchStrategy[Any]:
        return _made_by(self, None)

    def of_kind(self, make: "Callable[[Drawing], Any]") -> st.SearchStrategy[Any]:
        return _made_by(self, make)

    def one_of(self, choices: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(choices))
        return chosen

    def maybe(self, *choices: T) -> T | None:
        return self.one_of((None, None, *choices))

    def run_id(self) -> RunId:
        active = [run.id for run in self.oracle.runs if run.is_active]
        return self.one_of([NOBODY, *(run.id for run in self.oracle.runs), *active, *active])

    def claim(self) -> Claim:
        held = [Claim(run.id, run.token) for run in self.oracle.runs if run.token]
        wrong = [Claim(NOBODY, "x"), *(Claim(run.id, "") for run in self.oracle.runs[-1:])]
        return self.one_of([*wrong, *self.claims[-4:], *held, *held, *held])

    def instance_id(self) -> InstanceId:
        return self.one_of([NO_INSTANCE, *self.oracle.instances, *self.oracle.instances])

    def instant(self, *seconds: float) -> Instant:
        return later(self.oracle.now, seconds=self.one_of(seconds))

    def submit(self) -> Submit:
        return Submit(
            run_id=RunId(f"r{next(self.numbers)}"),
            key=self.one_of(KEYS),
            job=self.one_of(JOBS),
            params=self.one_of(DOCUMENTS),
            mode=self.one_of(list(Mode)),
            lane=self.one_of(LANES),
            on_conflict=self.one_of([OnConflict.ENQUEUE, *OnConflict]),
            idempotency_key=self.maybe("once", "Once"),
            queue_timeout_s=self.maybe(1.0, 5.0),
            timeout_s=self.maybe(1.0, 7.5),
            recovery=self.one_of([Recovery.RESUME, *Recovery]),
            parent_id=self.maybe(NOBODY),
            is_unattended=self.one_of([False, False, True]),
            by=self.one_of(["", "eve"]),
        )

    def submit_again(self) -> Submit:
        """As one does who got no answer."""
        earlier = [wanted for _, wanted, _ in self.oracle.remembered.values()]
        if not earlier:
            return self.submit()
        return replace(self.one_of(earlier), run_id=RunId(f"r{next(self.numbers)}"))

    def claim_runs(self) -> ClaimRuns:
        jobs = self.one_of([frozenset(JOBS), frozenset(JOBS), *(frozenset({j}) for j in JOBS)])
        return ClaimRuns(
            lane=self.one_of(LANES),
            instance_id=self.instance_id(),
            jobs=jobs,
            count=self.one_of([1, 2, 5]),
            nonce=f"n{next(self.numbers)}",
        )

    def settle(self) -> Any:
        claim = self.claim()
        complete = Complete(claim, self.one_of(DOCUMENTS))
        return self.one_of([complete, Fail(claim, self.one_of(ERRORS)), ConfirmCancel(claim)])

    def request_cancel(self) -> RequestCancel:
        return RequestCancel(
            run_id=self.run_id(),
            files=self.one_of(list(Files)),
            reason=self.one_of(["", 'enough of "it"']),
            by=self.one_of(["", "eve"]),
            grace_s=self.one_of([0.0, 1.0, 30.0]),
        )

    def push(self) -> Any:
        run_id = self.run_id()
        return self.one_of([ForceCancel(run_id), Expire(run_id), Wake(run_id)])

    def wait(self) -> Any:
        claim = self.claim()
        wake_at = None if self.draw(st.booleans()) else self.instant(-1, 0, 2)
        return self.one_of([GiveSlotBack(claim), WantSlot(claim), Park(claim, wake_at)])

    def report(self) -> Any:
        claim, document = self.claim(), self.one_of(DOCUMENTS)
        return self.one_of(
            [
                SaveProgress(claim, document),
                SaveCheckpoint(claim, document),
                AppendEvent(claim, "run_log", document),
                SetInteractive(claim, is_interactive=True),
                SetInteractive(claim, is_interactive=False),
            ]
        )

    def exchange(self) -> Any:
        if self.draw(st.booleans()):
            return ConsumeInbox(self.claim())
        return PostToInbox(
            run_id=self.run_id(),
            kind=self.one_of(["message", "signal"]),
            payload=self.one_of(DOCUMENTS),
            by=self.one_of(["", "eve"]),
            call_id=self.maybe("c1"),
        )

    def register(self) -> RegisterInstance:
        instance_id = InstanceId(f"i{next(self.numbers)}")
        ttl_s = self.one_of([2.0, 15.0])
        return RegisterInstance(instance_id=instance_id, host="host", pid=7, ttl_s=ttl_s)

    def renew(self) -> RenewInstance:
        return RenewInstance(instance_id=self.instance_id(), ttl_s=self.one_of([2.0, 15.0]))

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
        holders = [(run.id, run.instance_id) for run in self.oracle.runs if run.instance_id]
        run_id, instance_id = self.one_of([(self.run_id(), self.instance_id()), *holders, *holders])
        return ReleaseOrphan(run_id, instance_id)

    def set_lane(self) -> SetLane:
        return SetLane(
            name=self.one_of(LANES),
            max_concurrent=self.maybe(0, 1, 3),
            max_queued=self.maybe(-1, 0, 2),
            is_paused=self.maybe(False, False, True),
            expected_revision=self.maybe(0, 1),
        )

    def key_row(self) -> Any:
        key = self.one_of(KEYS)
        saved = SaveKey(
            key=key,
            job=self.one_of(JOBS),
            params=self.one_of(DOCUMENTS),
            expected_revision=self.maybe(0, 1),
        )
        return self.one_of([saved, saved, DeleteKey(key)])

    def prune(self) -> Any:
        runs = [NOBODY, *(run.id for run in self.oracle.runs)]
        run_ids = self.draw(st.lists(st.sampled_from(runs), min_size=1, max_size=4, unique=True))
        seq = max(0, self.oracle.seq - self.one_of([1, 5, 20]))
        ended_before, before = self.instant(-2, 0, 1), self.instant(-5, -1, 0)
        return self.one_of(
            [
                PruneRuns(tuple(run_ids), ended_before=ended_before),
                PruneEvents(seq),
                ForgetSubmissions(before=before),
            ]
        )


# As often as it stands here.
_KINDS: Final = [
    *[Drawing.submit] * 8,
    Drawing.submit_again,
    *[Drawing.claim_runs] * 6,
    *[Drawing.settle] * 4,
    *[Drawing.request_cancel] * 2,
    *[Drawing.push] * 2,
    *[Drawing.wait] * 4,
    *[Drawing.report] * 4,
    *[Drawing.exchange] * 2,
    *[Drawing.register, Drawing.renew, Drawing.bury],
    *[Drawing.release] * 2,
    *[Drawing.set_lane, Drawing.key_row, Drawing.prune],
]


@st.composite
def _made_by(draw: st.DrawFn, drawing: Drawing, make: Callable[[Drawing], Any] | None) -> Any:
    drawing.draw = draw
    return (make or drawing.one_of(_KINDS))(drawing)
