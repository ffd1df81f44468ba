"""When an engine asks for runs.

With each command of its own process that may make a run ready or free a slot, in the same
transaction; when others have committed such a thing, as soon as it hears of it; and now and then.
The last makes it certain, the others make it fast.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headway.core.command.advance import AdvanceFlow, Go
from headway.core.command.cancel import ConfirmDelivery
from headway.core.command.claim import Claimed, ClaimRuns, NotAlive
from headway.core.command.command import Command
from headway.core.command.files import DropFiles, FinishFile, OutputPrepared
from headway.core.command.inbox import ConsumeInbox
from headway.core.command.instance import RegisterInstance, RenewInstance
from headway.core.command.key_row import DeleteKey, SaveKey
from headway.core.command.look import HearNews, LoadTask
from headway.core.command.pause import PauseSchedule
from headway.core.command.prune import CountPrunable, ForgetSubmissions, PruneEvents, PruneRuns
from headway.core.command.question import AskQuestion, CloseQuestion
from headway.core.command.report import AppendEvents, SaveCheckpoint, SaveProgress, SetWindow
from headway.core.errors import InfrastructureError, StoreClosed
from headway.core.ids import CRON_LANE, InstanceId, LaneName
from headway.core.run.events import Event, EventType
from headway.log import event_log
from headway.ports.id_source import IdSource
from headway.ports.run_reader import RunReader
from headway.ports.store import Store, Whose
from headway.services.job import Job
from headway.services.patience import is_set_within

POLL_S: Final = 1.0
ALL_LANES_S: Final = 5.0
CLAIM_COUNT_MAX: Final = 500
MAKES_ROOM: Final = frozenset(
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
MAKES_NO_ROOM: Final = frozenset[type](
    {
        AppendEvents,
        AskQuestion,
        ClaimRuns,
        CloseQuestion,
        ConfirmDelivery,
        ConsumeInbox,
        CountPrunable,
        DeleteKey,
        DropFiles,
        FinishFile,
        ForgetSubmissions,
        HearNews,
        LoadTask,
        OutputPrepared,
        PauseSchedule,
        PruneEvents,
        PruneRuns,
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


class Claiming:
    """Asks from `begin` on, until it is told to stop."""

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        ids: IdSource,
        jobs: Mapping[str, Job],
        *,
        instance_id: Callable[[], InstanceId],
        on_answer: Callable[[InstanceId, Sequence[Claimed] | NotAlive], None],
    ) -> None:
        """`on_answer` is told in whose name was asked, and what came of it."""
        self._store = store
        self._reader = reader
        self._ids = ids
        self._jobs = jobs
        self._instance_id = instance_id
        self._on_answer = on_answer
        self._wake = asyncio.Event()
        self._all_lanes_at_s = float("-inf")
        self._is_stopping = False

    def begin(self) -> None:
        self._stop_company = self._store.accompany(self._company, self._answered)
        self._stop_listening = self._store.listen(self._heard, of=Whose.OTHERS)

    def stop(self) -> None:
        """What is under way is still answered."""
        self._is_stopping = True
        self._stop_company()
        self._stop_listening()
        self._wake.set()

    async def poll(self) -> None:
        """Until it is told to stop."""
        while not self._is_stopping:
            self._wake.clear()
            try:
                lanes = await self._lanes() if self._jobs else []
                # Together, so that they share a transaction.
                await asyncio.gather(*map(self._claim_from, lanes))
            except StoreClosed:  # Nothing can be done here any more.
                raise
            except InfrastructureError as error:
                log.warning("claim_failed", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # One round that breaks costs no more than itself.
                log.exception("claim_broke")
                await asyncio.sleep(POLL_S)
            await is_set_within(self._wake, POLL_S)

    async def _lanes(self) -> Sequence[LaneName]:
        """Those of our jobs, and of schedules; now and then all, for a job may have moved."""
        now_s = time.monotonic()
        if now_s - self._all_lanes_at_s < ALL_LANES_S:
            return self._own_lanes()
        self._all_lanes_at_s = now_s
        return await self._reader.lane_names()

    def _own_lanes(self) -> Sequence[LaneName]:
        return sorted({CRON_LANE, *(job.lane for job in self._jobs.values())})

    async def _claim_from(self, lane: LaneName) -> None:
        command = self._claim(lane)
        self._answered(command, await self._store.apply(command))

    def _company(self, command: Command[Any]) -> Sequence[ClaimRuns]:
        if type(command) in MAKES_NO_ROOM or not self._jobs:
            return ()
        if isinstance(command, AdvanceFlow) and isinstance(command.then, Go):
            return ()  # Most steps: their task goes on, and keeps its slot.
        return [self._claim(lane) for lane in self._own_lanes()]

    def _claim(self, lane: LaneName) -> ClaimRuns:
        return ClaimRuns(
            lane=lane,
            instance_id=self._instance_id(),
            jobs=frozenset(self._jobs),
            count=CLAIM_COUNT_MAX,
            nonce=self._ids.nonce(),
        )

    def _answered(self, command: ClaimRuns, answer: Sequence[Claimed] | NotAlive) -> None:
        if not isinstance(answer, NotAlive) and len(answer) == command.count:
            self._wake.set()  # There may be more.
        self._on_answer(command.instance_id, answer)

    def _heard(self, events: Sequence[Event]) -> None:
        if any(event.type in MAKES_ROOM for event in events):
            self._wake.set()
