"""How a test gets to where it begins, and how it looks at what came of it."""

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import Any

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import BatchState
from headway.core.command.admin.instance import DeclareDead, ReleaseOrphan
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.protocol import Command, RowsNeeded
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.claim import ClaimedRun, ClaimRuns
from headway.core.command.run.expire import Expire
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.command.run.submit import Accepted, Busy
from headway.core.ids import MAIN_LANE, InstanceId, LaneName, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import Claim, Run, RunRecord
from headway.core.run.status import RunStatus
from headway.ports.run_reader import LaneCounts
from headway.testing import FakeClock, a_claim, a_submit, an_error, an_instance, claim_of

TIMEOUT_S = 10.0
NOBODYS_TOKEN = "nobody's"


async def instance(store: SqlStore, *, ttl_s: float = 1e6) -> InstanceId:
    """An instance that lives for as long as the test, unless it says otherwise."""
    registration = an_instance(ttl_s=ttl_s)
    await store.apply(registration)
    return registration.instance_id


async def submitted(store: SqlStore, key: str = "ann", **wanted: Any) -> RunId:
    answer = await store.apply(a_submit(key, **wanted))
    assert isinstance(answer, Accepted), answer
    return answer.run_id


async def claimed(store: SqlStore, claim: ClaimRuns) -> tuple[ClaimedRun, ...]:
    answer = await store.apply(claim)
    assert isinstance(answer, tuple), answer
    return answer


async def claimed_one(store: SqlStore, instance_id: InstanceId, **wanted: Any) -> ClaimedRun:
    (one,) = await claimed(store, a_claim(instance_id, **wanted))
    return one


async def running(
    store: SqlStore, key: str = "ann", *, by: InstanceId | None = None, **wanted: Any
) -> ClaimedRun:
    """A run that executes, by a new instance unless one is given."""
    run_id = await submitted(store, key, **wanted)
    holder = await instance(store) if by is None else by
    lane, job = wanted.get("lane", MAIN_LANE), wanted.get("job", "mirror")
    one = await claimed_one(store, holder, lane=lane, jobs=[job])
    assert one.run_id == run_id
    return one


async def orphaned(store: SqlStore, run_id: RunId, *, times: int = 1) -> None:
    """Let the run's executor die and the run be taken from it; between deaths it is claimed."""
    for number in range(times):
        if number:
            lane = (await state(store, run_id)).lane
            await claimed_one(store, await instance(store), lane=lane)
        holder = (await state(store, run_id)).instance_id
        assert holder is not None
        assert await store.apply(DeclareDead(holder, is_proven=True))
        assert await store.apply(ReleaseOrphan(run_id, holder))


async def raise_limit(store: SqlStore, limit: int, *, lane: str = MAIN_LANE) -> None:
    await store.apply(SetLane(name=LaneName(lane), max_concurrent=limit))


class _Pause:
    """A command that keeps the writer until it is let go; it changes nothing."""

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.may_end = threading.Event()

    def need(self, needs: RowsNeeded) -> None:
        """It looks at nothing."""

    def decide(self, _: BatchState) -> None:
        self.is_reached.set()
        self.may_end.wait()


async def together(store: SqlStore, *commands: Command[Any]) -> list[Any]:
    """Let these commands share a batch, in this order; errors are among the answers."""
    pause = _Pause()
    waiting = [store.writer.queue.put(pause)]
    await asyncio.to_thread(pause.is_reached.wait)
    try:
        waiting += [store.writer.queue.put(command) for command in commands]
    finally:
        pause.may_end.set()
    _, *answers = await asyncio.gather(*waiting, return_exceptions=True)
    return answers


# Looking.


async def record(store: SqlStore, run_id: RunId) -> RunRecord:
    found = await store.runs.run(run_id)
    assert found is not None
    return found


async def state(store: SqlStore, run_id: RunId) -> Run:
    run = (await record(store, run_id)).run
    run.check()
    return run


async def status(store: SqlStore, run_id: RunId) -> RunStatus:
    return (await state(store, run_id)).status


async def events(store: SqlStore, run_id: RunId | None = None) -> list[Event]:
    page = await store.events.events(after_seq=0, limit=100_000, run_id=run_id)
    return list(page.events)


async def kinds(store: SqlStore, run_id: RunId) -> list[str]:
    return [event.type for event in await events(store, run_id)]


async def moves(store: SqlStore, run_id: RunId) -> list[tuple[str | None, str]]:
    """The state changes of a run, from and to, as its events tell them."""
    payloads = [
        json.loads(event.payload)
        for event in await events(store, run_id)
        if event.type == EventType.STATE_CHANGED
    ]
    return [(payload["from"], payload["to"]) for payload in payloads]


async def lane_view(store: SqlStore, name: str = MAIN_LANE) -> LaneCounts:
    (view,) = [view for view in await store.runs.lanes() if view.lane.name == name]
    return view


# A run in any state.


@dataclass(frozen=True, slots=True)
class Given:
    run_id: RunId
    claim: Claim
    """The last claim there was; of a run that never had one, a claim that nobody has."""


async def given(
    store: SqlStore, clock: FakeClock, wanted: RunStatus, *, key: str = "ann", lane: str = MAIN_LANE
) -> Given:
    """A run in this state, brought there by commands. The clock moves on for those timed out."""
    if wanted is RunStatus.REJECTED:
        return await _rejected(store, key, lane)
    if wanted is RunStatus.QUEUED:
        return _unclaimed(await submitted(store, key, lane=lane, queue_timeout_s=TIMEOUT_S))
    if wanted is RunStatus.TIMED_OUT:
        run_id = await submitted(store, key, lane=lane, queue_timeout_s=TIMEOUT_S)
        clock.advance(TIMEOUT_S)
        assert await store.apply(Expire(run_id))
        return _unclaimed(run_id)
    claim = claim_of(await running(store, key, lane=lane, timeout_s=TIMEOUT_S))
    match wanted:
        case RunStatus.SUCCEEDED:
            await store.apply(Complete(claim))
        case RunStatus.FAILED:
            await store.apply(Fail(claim, an_error()))
        case RunStatus.CANCELLING:
            await store.apply(RequestCancel(run_id=claim.run_id, grace_s=TIMEOUT_S))
        case RunStatus.CANCELED:
            await store.apply(RequestCancel(run_id=claim.run_id))
            await store.apply(ConfirmCancel(claim))
        case RunStatus.RUNNING:
            pass
    assert await status(store, claim.run_id) is wanted
    return Given(claim.run_id, claim)


async def _rejected(store: SqlStore, key: str, lane: str) -> Given:
    await submitted(store, key, lane=lane)
    refused = a_submit(key, lane=lane, is_unattended=True)
    assert isinstance(await store.apply(refused), Busy)
    return _unclaimed(refused.run_id)


def _unclaimed(run_id: RunId) -> Given:
    return Given(run_id, Claim(run_id, NOBODYS_TOKEN))
