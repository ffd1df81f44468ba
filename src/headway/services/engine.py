"""The engine of one process: it claims runs when there is room, and executes them.

Hints make it fast (a commit of this process), polling makes it certain (others commit too).
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from headway.core.command.claim import Claimed, ClaimRuns, NotAlive
from headway.core.command.instance import (
    LEASE_TTL_S,
    DeclareDead,
    RegisterInstance,
    RenewInstance,
    RetireInstance,
)
from headway.core.errors import InfrastructureError, LeaseLost
from headway.core.ids import InstanceId, LaneName, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.execute import execute, give_up
from headway.services.job import Job
from headway.services.sweep import sweep

POLL_S: Final = 1.0
RENEW_S: Final = LEASE_TTL_S / 3
SWEEP_S: Final = 1.0
CLAIM_COUNT_MAX: Final = 100
HELD_COUNT_MAX: Final = 100_000

log = logging.getLogger(__name__)


class Engine:
    """Works inside `async with`. If it dies there, the body is cancelled, and its error raised.

    At the end of the body no more runs are claimed, and those at hand have `stop_wait_s` to end, or
    none after an error. Then they are cancelled and given up: others go on with them.
    """

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        ids: IdSource,
        clock: Clock,
        jobs: Mapping[str, Job],
        *,
        stop_wait_s: float,
    ) -> None:
        self._store = store
        self._reader = reader
        self._ids = ids
        self._clock = clock
        self._jobs = jobs
        self._stop_wait_s = stop_wait_s
        self._instance_id: InstanceId = ids.instance_id()
        self._is_stopping = False
        self._wake = asyncio.Event()
        self._executing: dict[RunId, asyncio.Task[None]] = {}
        """Those that have begun: a task that is cancelled before does nothing, not even settle."""

    async def __aenter__(self) -> Self:
        await self._store.apply(
            RegisterInstance(
                instance_id=self._instance_id, host=socket.gethostname(), pid=os.getpid()
            )
        )
        self._stop_listening = self._store.listen(self._on_events)
        self._group = await asyncio.TaskGroup().__aenter__()
        self._group.create_task(self._work())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_stopping = True
        if error is not None:
            self._stop_wait_s = 0.0
        self._wake.set()
        died_of: BaseException | None = None
        try:
            if isinstance(error, asyncio.CancelledError):
                # It may come from the group itself, which then takes it back.
                await self._group.__aexit__(kind, error, traceback)
            else:  # What else the body raised is not the group's, which would only wrap it.
                await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as errors:
            died_of = _first(errors)
        finally:
            self._stop_listening()
            await self._leave()
        if died_of is not None:
            raise died_of

    def _on_events(self, events: Sequence[Event]) -> None:
        self._wake.set()
        for event in events:
            if (
                event.run_id in self._executing
                and event.type == EventType.STATE_CHANGED
                and json.loads(event.payload)["to"] == RunStatus.CANCELLING
            ):
                self._cancel(event.run_id)

    def _cancel(self, run_id: RunId) -> None:
        task = self._executing.get(run_id)
        # Once: a second time would disturb the job while it cleans up.
        if task is not None and not task.cancelling():
            task.cancel()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as lease_group:
            renewing = lease_group.create_task(self._renew())
            sweeping = lease_group.create_task(self._sweep())
            try:
                async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as job_group:
                    await self._claim(job_group)
                    limit.reschedule(loop.time() + self._stop_wait_s)
            except TimeoutError:
                log.info("runs_given_up", extra={"instance_id": self._instance_id})
            renewing.cancel()
            sweeping.cancel()

    async def _claim(self, group: asyncio.TaskGroup) -> None:
        lanes = sorted({job.lane for job in self._jobs.values()})
        while not self._is_stopping:
            self._wake.clear()
            for lane in lanes:
                await self._claim_lane(group, lane)
            try:
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _claim_lane(self, group: asyncio.TaskGroup, lane: LaneName) -> None:
        names = frozenset(job.name for job in self._jobs.values() if job.lane == lane)
        claimed = await self._store.apply(
            ClaimRuns(
                lane=lane,
                instance_id=self._instance_id,
                jobs=names,
                count=CLAIM_COUNT_MAX,
                nonce=self._ids.nonce(),
            )
        )
        if isinstance(claimed, NotAlive):
            raise LeaseLost(self._instance_id)
        for one in claimed:
            group.create_task(self._execute(one))

    async def _execute(self, claimed: Claimed) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._executing[claimed.run_id] = task
        try:
            await execute(self._store, self._jobs[claimed.job], claimed)
        finally:
            del self._executing[claimed.run_id]

    async def _renew(self) -> None:
        while True:  # Ends by cancellation only.
            await asyncio.sleep(RENEW_S)
            if await self._store.apply(RenewInstance(instance_id=self._instance_id)) is None:
                raise LeaseLost(self._instance_id)
            # Another process may have been asked to cancel, or a hint may have come too early.
            for run in await self._reader.runs_held_by(self._instance_id, limit=HELD_COUNT_MAX):
                if run.status is RunStatus.CANCELLING:
                    self._cancel(run.id)

    async def _sweep(self) -> None:
        while True:  # Ends by cancellation only.
            await sweep(self._store, self._reader, self._clock)
            await asyncio.sleep(SWEEP_S)

    async def _leave(self) -> None:
        """Give up what is still held. Dead first: a claim that is under way can win no more."""
        try:
            await self._store.apply(DeclareDead(self._instance_id, is_proven=True))
            held = await self._reader.runs_held_by(self._instance_id, limit=HELD_COUNT_MAX)
            await asyncio.gather(*(give_up(self._store, Claim(run.id, run.token)) for run in held))
            await self._store.apply(RetireInstance(self._instance_id))
        except InfrastructureError as error:  # Others will find out when the lease has run out.
            log.warning("left_without_a_word", extra={"reason": str(error)})


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
