"""When an engine asks for runs.

With each command of its own process that may make a run ready or free a slot, in the same
transaction; when others have committed such a thing, as soon as it hears of it; and now and then.
The last makes it certain, the others make it fast.

A run may be in a lane that none of the jobs here names. Such a lane is asked when something has
happened in it, and from the first run that was won there on it is one of the usual ones.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headway.core.command.admin.instance import RegisterInstance, RenewInstance
from headway.core.command.admin.pause_schedule import PauseSchedule
from headway.core.command.admin.prune import (
    CountPrunable,
    PruneEvents,
    PruneIdempotencyKeys,
    PruneRuns,
)
from headway.core.command.admin.save_key import DeleteKey, SaveKey
from headway.core.command.flow.advance import AdvanceFlow, ContinueTask
from headway.core.command.flow.load_task import LoadTask, ReadTaskUpdates
from headway.core.command.protocol import Command
from headway.core.command.run.cancel import ConfirmCancelDelivery
from headway.core.command.run.claim import ClaimedRun, ClaimRuns, InstanceLost
from headway.core.command.run.inbox import ConsumeInbox
from headway.core.command.run.interrupt import CloseInterrupt, OpenInterrupt, ReadInterrupts
from headway.core.command.run.record_files import (
    ConfirmOutputPrepared,
    FinishFile,
    RemoveFileRecords,
)
from headway.core.command.run.report import AppendEvents, SaveCheckpoint, SaveProgress, SetWindow
from headway.core.errors import InfrastructureError, StoreClosed
from headway.core.ids import CRON_LANE, InstanceId, LaneName
from headway.core.run.events import Event, EventType
from headway.log import event_log
from headway.ports.id_source import IdSource
from headway.ports.run_reader import RunReader
from headway.ports.store import EventOrigin, Store
from headway.services.retrying import wait_until_set
from headway.services.submit.job import Job

POLL_S: Final = 1.0
ALL_LANES_POLL_S: Final = 5.0
CLAIM_COUNT_MAX: Final = 500
EXTRA_LANE_COUNT_MAX: Final = 8
"""Lanes beyond those of our jobs that are asked each time: every claim asks them all."""
CLAIM_TRIGGERS: Final = frozenset(
    {
        EventType.STATE_CHANGED,
        EventType.TAKEN_OVER,
        EventType.WAITING,
        EventType.RETRIED,
        EventType.PARKED,
        EventType.WOKEN,
        EventType.LANE_CHANGED,
    }
)
"""After these a run may be ready that was not, or a slot may be free."""
NON_TRIGGER_COMMANDS: Final = frozenset[type](
    {
        AppendEvents,
        OpenInterrupt,
        ClaimRuns,
        CloseInterrupt,
        ConfirmCancelDelivery,
        ConsumeInbox,
        CountPrunable,
        DeleteKey,
        RemoveFileRecords,
        FinishFile,
        PruneIdempotencyKeys,
        ReadTaskUpdates,
        LoadTask,
        ConfirmOutputPrepared,
        PauseSchedule,
        PruneEvents,
        PruneRuns,
        ReadInterrupts,
        RegisterInstance,
        RenewInstance,
        SaveCheckpoint,
        SaveKey,
        SaveProgress,
        SetWindow,
    }
)
"""Commands of which no such event comes: to claim beside them would be in vain."""

log = event_log(__name__)


class Claimer:
    """Asks from `begin` on, until it is told to stop."""

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        ids: IdSource,
        jobs: Mapping[str, Job],
        *,
        instance_id: Callable[[], InstanceId],
        on_answer: Callable[[InstanceId, Sequence[ClaimedRun] | InstanceLost], None],
    ) -> None:
        """`on_answer` is told in whose name was asked, and what came of it."""
        self._store = store
        self._reader = reader
        self._ids = ids
        self._jobs = jobs
        self._instance_id = instance_id
        self._on_answer = on_answer
        self._wake = asyncio.Event()
        self._extra_lanes: dict[LaneName, None] = {}
        """Lanes that no job of ours names, where we have won runs; the latest comes last."""
        self._changed_lanes: set[LaneName] = set()
        """Where something has happened since the last round, and we do not usually ask."""
        self._all_lanes_polled_at_s = float("-inf")
        self._is_stopping = False

    def start(self) -> None:
        self._stop_piggyback = self._store.piggyback(self._piggyback_claims, self._on_answered)
        self._stop_listening_others = self._store.listen(
            self._on_other_events, origin=EventOrigin.OTHERS
        )
        self._stop_listening_own = self._store.listen(
            self._mark_changed_lanes, origin=EventOrigin.OWN
        )

    def stop(self) -> None:
        """What is under way is still answered."""
        self._is_stopping = True
        self._stop_piggyback()
        self._stop_listening_others()
        self._stop_listening_own()
        self._wake.set()

    async def poll(self) -> None:
        """Until it is told to stop."""
        while not self._is_stopping:
            self._wake.clear()
            called, self._changed_lanes = self._changed_lanes, set()
            try:
                lanes = await self._lanes_to_poll(called) if self._jobs else []
                # Together, so that they share a transaction.
                await asyncio.gather(*map(self._claim_from, lanes))
                called.clear()
            except StoreClosed:  # Nothing can be done here any more.
                raise
            except InfrastructureError as error:
                log.warning("claim_failed", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # One round that breaks costs no more than itself.
                log.exception("claim_broke")
                await asyncio.sleep(POLL_S)
            self._changed_lanes |= called  # Who could not be asked.
            await wait_until_set(self._wake, POLL_S)

    async def _lanes_to_poll(self, called: set[LaneName]) -> Sequence[LaneName]:
        """The usual ones, and where something happened; now and then all: hints may be lost."""
        now_s = time.monotonic()
        if now_s - self._all_lanes_polled_at_s < ALL_LANES_POLL_S:
            return sorted(self._regular_lanes() | called)
        names = await self._reader.lane_names()
        self._all_lanes_polled_at_s = now_s
        return names

    def _regular_lanes(self) -> set[LaneName]:
        """Those of our jobs, of schedules, and where we have won runs of late."""
        return {CRON_LANE, *(job.lane for job in self._jobs.values()), *self._extra_lanes}

    async def _claim_from(self, lane: LaneName) -> None:
        command = self._claim_command(lane)
        answer = await self._store.apply(command)
        if not isinstance(answer, InstanceLost) and answer and lane not in self._regular_lanes():
            self._extra_lanes[lane] = None
            self._wake.set()  # What was put meanwhile had no company that asked here.
            if (
                len(self._extra_lanes) > EXTRA_LANE_COUNT_MAX
            ):  # It is still asked when something happens in it.
                del self._extra_lanes[next(iter(self._extra_lanes))]
        self._on_answered(command, answer)

    def _piggyback_claims(self, command: Command[Any]) -> Sequence[ClaimRuns]:
        if type(command) in NON_TRIGGER_COMMANDS or not self._jobs:
            return ()
        if isinstance(command, AdvanceFlow) and isinstance(command.next_action, ContinueTask):
            return ()  # Most steps: their task goes on, and keeps its slot.
        return [self._claim_command(lane) for lane in sorted(self._regular_lanes())]

    def _claim_command(self, lane: LaneName) -> ClaimRuns:
        return ClaimRuns(
            lane=lane,
            instance_id=self._instance_id(),
            jobs=frozenset(self._jobs),
            count=CLAIM_COUNT_MAX,
            nonce=self._ids.nonce(),
        )

    def _on_answered(self, command: ClaimRuns, answer: Sequence[ClaimedRun] | InstanceLost) -> None:
        if not isinstance(answer, InstanceLost) and len(answer) == command.count:
            self._wake.set()  # There may be more.
        self._on_answer(command.instance_id, answer)

    def _on_other_events(self, events: Sequence[Event]) -> None:
        self._mark_changed_lanes(events)
        if any(event.type in CLAIM_TRIGGERS for event in events):
            self._wake.set()

    def _mark_changed_lanes(self, events: Sequence[Event]) -> None:
        """Ask where this happened, unless it is one of the lanes that every claim asks."""
        lanes = {event.lane for event in events if event.type in CLAIM_TRIGGERS}
        called = {lane for lane in lanes - self._regular_lanes() if lane is not None}
        if called and self._jobs:
            self._changed_lanes |= called
            self._wake.set()
