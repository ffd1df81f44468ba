"""Builders that bring a store to the start of a test, and readers of the outcome."""

import asyncio
import json
import threading
from dataclasses import dataclass
from typing import Any

from headway.adapters.sql.sql_store import SqlStore
from headway.core.batch_state import BatchState
from headway.core.command.admin.instance import DeclareDead, ReleaseOrphan
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.protocol import Command, RowsNeeded
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.claim import ClaimedRun, ClaimRuns
from headway.core.command.run.end_run import Expire
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail
from headway.core.command.run.submit import Accepted, Busy
from headway.core.ids import MAIN_LANE, InstanceId, LaneName, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import Claim, Run, RunRecord
from headway.core.run.status import RunStatus
from headway.ports.run_reader import LaneCounts
from headway.testing import FakeClock, a_claim, a_submit, an_error, an_instance, claim_of

TIMEOUT_S = 10.0
UNKNOWN_TOKEN = "unknown"


async def register_instance(store: SqlStore, *, ttl_s: float = 1e6) -> InstanceId:
    """Register an instance whose lease lasts for the whole test, unless `ttl_s` is given."""
    registration = an_instance(ttl_s=ttl_s)
    await store.apply(registration)
    return registration.instance_id


async def submit_run(store: SqlStore, key: str = "ann", **options: Any) -> RunId:
    answer = await store.apply(a_submit(key, **options))
    assert isinstance(answer, Accepted), answer
    return answer.run_id


async def claim_runs(store: SqlStore, claim: ClaimRuns) -> tuple[ClaimedRun, ...]:
    answer = await store.apply(claim)
    assert isinstance(answer, tuple), answer
    return answer


async def claim_run(store: SqlStore, instance_id: InstanceId, **options: Any) -> ClaimedRun:
    (run,) = await claim_runs(store, a_claim(instance_id, **options))
    return run


async def start_run(
    store: SqlStore, key: str = "ann", *, by: InstanceId | None = None, **options: Any
) -> ClaimedRun:
    """Submit a run and claim it, by a new instance unless `by` is given."""
    run_id = await submit_run(store, key, **options)
    holder = await register_instance(store) if by is None else by
    lane, job = options.get("lane", MAIN_LANE), options.get("job", "mirror")
    run = await claim_run(store, holder, lane=lane, jobs=[job])
    assert run.run_id == run_id
    return run


async def orphan_run(store: SqlStore, run_id: RunId, *, times: int = 1) -> None:
    """Declare the run's holder dead and release the run; claim it again between deaths."""
    for number in range(times):
        if number:
            lane = (await read_run(store, run_id)).lane
            await claim_run(store, await register_instance(store), lane=lane)
        holder = (await read_run(store, run_id)).instance_id
        assert holder is not None
        assert await store.apply(DeclareDead(holder, is_proven=True))
        assert await store.apply(ReleaseOrphan(run_id, holder))


async def raise_limit(store: SqlStore, limit: int, *, lane: str = MAIN_LANE) -> None:
    await store.apply(SetLane(name=LaneName(lane), max_concurrent=limit))


class _Pause:
    """A command that blocks the writer until it is released; it changes nothing."""

    may_free_capacity = False

    def __init__(self) -> None:
        self.is_reached = threading.Event()
        self.may_end = threading.Event()

    def document_length(self) -> int:
        return 0

    def need(self, rows: RowsNeeded) -> None:
        """Needs no rows."""

    def decide(self, _: BatchState) -> None:
        self.is_reached.set()
        self.may_end.wait()


async def apply_in_one_batch(store: SqlStore, *commands: Command[Any]) -> list[Any]:
    """Apply commands in one batch, in this order; errors are among the answers."""
    pause = _Pause()
    waiting = [store.writer.queue.put(pause)]
    await asyncio.to_thread(pause.is_reached.wait)
    try:
        waiting += [store.writer.queue.put(command) for command in commands]
    finally:
        pause.may_end.set()
    _, *answers = await asyncio.gather(*waiting, return_exceptions=True)
    return answers


# Readers.


async def read_record(store: SqlStore, run_id: RunId) -> RunRecord:
    stored = await store.runs.run(run_id)
    assert stored is not None
    return stored


async def read_run(store: SqlStore, run_id: RunId) -> Run:
    run = (await read_record(store, run_id)).run
    run.check()
    return run


async def read_status(store: SqlStore, run_id: RunId) -> RunStatus:
    return (await read_run(store, run_id)).status


async def read_events(store: SqlStore, run_id: RunId | None = None) -> list[Event]:
    page = await store.events.events(after_seq=0, limit=100_000, run_id=run_id)
    return list(page.events)


async def read_event_types(store: SqlStore, run_id: RunId) -> list[str]:
    return [event.type for event in await read_events(store, run_id)]


async def read_transitions(store: SqlStore, run_id: RunId) -> list[tuple[str | None, str]]:
    """Return the state changes of a run, from and to, as its events show them."""
    payloads = [
        json.loads(event.payload)
        for event in await read_events(store, run_id)
        if event.type == EventType.STATE_CHANGED
    ]
    return [(payload["from"], payload["to"]) for payload in payloads]


async def read_lane(store: SqlStore, name: str = MAIN_LANE) -> LaneCounts:
    (view,) = [view for view in await store.runs.lanes() if view.lane.name == name]
    return view


# A run in any state.


@dataclass(frozen=True, slots=True)
class RunWithClaim:
    run_id: RunId
    claim: Claim
    """The last claim of the run, or an unknown claim if it never had one."""


async def bring_run_to(
    store: SqlStore,
    clock: FakeClock,
    target_status: RunStatus,
    *,
    key: str = "ann",
    lane: str = MAIN_LANE,
) -> RunWithClaim:
    """Bring a new run to this status by commands. The clock advances for a timeout."""
    if target_status is RunStatus.REJECTED:
        return await _submit_rejected(store, key, lane)
    if target_status is RunStatus.QUEUED:
        return _without_claim(await submit_run(store, key, lane=lane, queue_timeout_s=TIMEOUT_S))
    if target_status is RunStatus.TIMED_OUT:
        run_id = await submit_run(store, key, lane=lane, queue_timeout_s=TIMEOUT_S)
        clock.advance(TIMEOUT_S)
        assert await store.apply(Expire(run_id))
        return _without_claim(run_id)
    claim = claim_of(await start_run(store, key, lane=lane, timeout_s=TIMEOUT_S))
    match target_status:
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
    assert await read_status(store, claim.run_id) is target_status
    return RunWithClaim(claim.run_id, claim)


async def _submit_rejected(store: SqlStore, key: str, lane: str) -> RunWithClaim:
    await submit_run(store, key, lane=lane)
    refused = a_submit(key, lane=lane, is_unattended=True)
    assert isinstance(await store.apply(refused), Busy)
    return _without_claim(refused.run_id)


def _without_claim(run_id: RunId) -> RunWithClaim:
    return RunWithClaim(run_id, Claim(run_id, UNKNOWN_TOKEN))
