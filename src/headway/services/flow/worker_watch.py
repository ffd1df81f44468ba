"""Wake tasks that are parked because no live worker offered their service.

Such a task holds no slot and polls nothing. Each process polls the worker registry once per second.
Its calls to workers reuse a read of the registry that is less than a second old. When a new service
has appeared, the tasks that wait for it are woken. All waiting tasks are also checked every ten
seconds, because a task may park while its worker registers. Without a worker, a task wakes by
itself at the end of its wait.
"""

import asyncio
import json
import time
from collections.abc import Collection
from typing import Final

from headway.core.command.run.wait import WakeParked
from headway.core.flow.engine.stored_state import awaited_services
from headway.ports.flow_reader import FlowReader, FlowTask, TaskFilter
from headway.ports.store import Store
from headway.services.flow.waiting_nodes import WORKER
from headway.services.flow.workers import Workers

SCAN_S: Final = 10.0
"""How often all waiting tasks are checked, even if no new service has appeared."""
TASK_COUNT_MAX: Final = 100_000
WAKE_BATCH_COUNT: Final = 500


class WorkerWatch:
    def __init__(self, store: Store, flows: FlowReader, workers: Workers) -> None:
        self._store = store
        self._flow_reader = flows
        self._workers = workers
        self._offered: frozenset[str] = frozenset()
        self._scanned_at_s = float("-inf")

    async def poll(self) -> None:
        """Wake the parked tasks that wait for a service that a live worker offers now."""
        offered = await self._workers.read_recent_services()
        now_s = time.monotonic()
        has_new_service = bool(offered - self._offered)
        if offered and (has_new_service or now_s - self._scanned_at_s >= SCAN_S):
            await self._wake_for(offered)
            self._scanned_at_s = now_s
        self._offered = offered

    async def _wake_for(self, offered: Collection[str]) -> None:
        wakes: list[WakeParked] = []
        waiting = self._flow_reader.tasks(TaskFilter(waits_for=WORKER), limit=TASK_COUNT_MAX)
        async for task in waiting:
            if not _awaited_services(task).isdisjoint(offered):
                wakes.append(WakeParked(task.record.run.id, task.record.run.generation))
            if len(wakes) == WAKE_BATCH_COUNT:
                await asyncio.gather(*map(self._store.apply, wakes))
                wakes = []
        await asyncio.gather(*map(self._store.apply, wakes))


def _awaited_services(task: FlowTask) -> set[str]:
    standing = task.flow_run.standing
    is_parked = task.record.run.is_parked and standing is not None
    return awaited_services(json.loads(standing or "")) if is_parked else set()
