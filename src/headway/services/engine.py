"""The engine of one process: it claims runs when there is room, and executes them.

Hints make it fast (a commit of this process), polling makes it certain (others commit too).
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from headway.core.command.claim import Claimed, ClaimRuns, NotAlive
from headway.core.command.instance import (
    LEASE_TTL_S,
    DeclareDead,
    RegisterInstance,
    RenewInstance,
    RetireInstance,
)
from headway.core.errors import LeaseLost
from headway.core.ids import InstanceId, LaneName, RunId
from headway.core.run.events import Event
from headway.ports.id_source import IdSource
from headway.ports.store import Store
from headway.services.execute import execute
from headway.services.job import Job

POLL_S: Final = 1.0
RENEW_S: Final = LEASE_TTL_S / 3
CLAIM_COUNT_MAX: Final = 100

log = logging.getLogger(__name__)


class Engine:
    def __init__(self, store: Store, ids: IdSource, jobs: Mapping[str, Job]) -> None:
        self._store = store
        self._ids = ids
        self._jobs = jobs
        self._instance_id: InstanceId = ids.instance_id()
        self._wake = asyncio.Event()
        self._executing: dict[RunId, asyncio.Task[None]] = {}

    async def run(self, started: asyncio.Event) -> None:
        """Claim and execute until cancelled; then the runs at hand are cancelled and settled."""
        await self._store.apply(
            RegisterInstance(
                instance_id=self._instance_id, host=socket.gethostname(), pid=os.getpid()
            )
        )
        stop_listening = self._store.listen(self._on_events)
        started.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._renew())
                await self._claim(group)
        finally:
            stop_listening()
            await self._leave()

    def _on_events(self, events: Sequence[Event]) -> None:
        self._wake.set()
        for event in events:
            task = self._executing.get(event.run_id) if event.run_id is not None else None
            if task is not None and '"to":"cancelling"' in event.payload:
                task.cancel()

    async def _claim(self, group: asyncio.TaskGroup) -> None:
        lanes = {job.lane for job in self._jobs.values()}
        while True:  # Ends by cancellation only.
            self._wake.clear()
            for lane in sorted(lanes):
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
            self._executing[one.run_id] = group.create_task(self._execute(one))

    async def _execute(self, claimed: Claimed) -> None:
        try:
            await execute(self._store, self._jobs[claimed.job], claimed)
        finally:
            del self._executing[claimed.run_id]

    async def _renew(self) -> None:
        while True:  # Ends by cancellation only.
            await asyncio.sleep(RENEW_S)
            await self._store.apply(RenewInstance(instance_id=self._instance_id))

    async def _leave(self) -> None:
        # What could not be settled is found at once by others, not after the lease.
        await self._store.apply(DeclareDead(self._instance_id, is_proven=True))
        if not self._executing:
            await self._store.apply(RetireInstance(self._instance_id))
