"""Claim runs for the engine of this process, at the moments when a claim may succeed.

There are three such moments. First, a command of this process that may make a run ready or free a
slot (`may_free_capacity`) carries a claim that is decided after it in the same transaction, so a
run that is submitted to an idle engine is claimed by the commit that accepts it. Second, an event
of another process after which a run may be ready or a slot free (CLAIM_TRIGGERS) triggers a poll at
once. Third, a poll runs every POLL_S. The regular poll makes claiming reliable, because events may
be lost; the other two make it fast.

A claim is one command for several lanes. The regular lanes are those of the jobs registered here
and of schedules; every claim includes them. A run may also be submitted to another lane. Such a
lane is polled when an event occurs in it, and all lanes are polled every ALL_LANES_POLL_S. When a
claim in such a lane succeeds, the lane becomes a regular lane, until EXTRA_LANE_COUNT_MAX newer
lanes have displaced it.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from headway.core.command.protocol import Command
from headway.core.command.run.claim import ClaimedRun, ClaimRuns, InstanceLost
from headway.core.errors import InfrastructureError, StoreClosed, StoreFailed
from headway.core.event_payloads import PAYLOADS
from headway.core.ids import CRON_LANE, InstanceId, LaneName
from headway.core.run.events import Event
from headway.log import event_log
from headway.ports.id_source import IdSource
from headway.ports.run_reader import RunReader
from headway.ports.store import EventOrigin, Store
from headway.services.retrying import wait_until_set
from headway.services.submit.job import Job

POLL_S: Final = 1.0
ALL_LANES_POLL_S: Final = 5.0
CLAIM_COUNT_MAX: Final = 500
CLAIM_LANE_COUNT_MAX: Final = 500
EXTRA_LANE_COUNT_MAX: Final = 8
"""The maximum number of regular lanes that belong to no job registered in this process."""
CLAIM_TRIGGERS: Final = frozenset(
    event_type for event_type, payload in PAYLOADS.items() if payload.may_free_capacity
)
"""Events after which a run may have become ready, or a slot may have become free."""

log = event_log(__name__)


class Claimer:
    """Claims runs from `start` until `stop`. The engine runs `poll` as a task meanwhile."""

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        ids: IdSource,
        jobs: Mapping[str, Job],
        *,
        on_answer: Callable[[InstanceId, Sequence[ClaimedRun] | InstanceLost], None],
    ) -> None:
        """Create a claimer. `on_answer` receives the instance and the answer of each claim.

        Set `instance_id` before `start`, and whenever the engine registers again.
        """
        self._store = store
        self._reader = reader
        self._ids = ids
        self._jobs = jobs
        self.instance_id: InstanceId
        self._on_answer = on_answer
        self._wake = asyncio.Event()
        self._extra_lanes: dict[LaneName, None] = {}
        """Lanes in which runs were claimed but which no job registered here uses, newest last."""
        self._changed_lanes: set[LaneName] = set()
        """Lanes that are not regular and had an event since the last round."""
        self._failed_lanes: set[LaneName] = set()
        """Lanes in which the database could not execute the last claim."""
        self._all_lanes_polled_at_s = float("-inf")
        self._is_stopping = False

    def start(self) -> None:
        self._stop_piggyback = self._store.piggyback(self._piggyback_claim, self._on_answered)
        self._stop_listening_others = self._store.listen(
            self._on_other_events, origin=EventOrigin.OTHERS
        )
        self._stop_listening_own = self._store.listen(
            self._mark_changed_lanes, origin=EventOrigin.OWN
        )

    def stop(self) -> None:
        """Send no more claims. Claims in flight are still answered."""
        self._is_stopping = True
        self._stop_piggyback()
        self._stop_listening_others()
        self._stop_listening_own()
        self._wake.set()

    async def poll(self) -> None:
        """Claim runs until `stop`: every POLL_S, and after each event that may permit a claim."""
        while not self._is_stopping:
            self._wake.clear()
            changed, self._changed_lanes = self._changed_lanes, set()
            try:
                if self._jobs:
                    await self._claim_from(await self._lanes_to_poll(changed))
                changed.clear()
            except StoreClosed:  # No claim can succeed any more.
                raise
            except InfrastructureError as error:
                log.warning("claim_failed", extra={"reason": str(error)})
                await asyncio.sleep(POLL_S)
            except Exception:  # A crash must not end the loop.
                log.exception("claim_round_crashed")
                await asyncio.sleep(POLL_S)
            self._changed_lanes |= changed  # Not empty after a failure: poll these again.
            await wait_until_set(self._wake, POLL_S)

    async def _lanes_to_poll(self, changed: set[LaneName]) -> Collection[LaneName]:
        """Return the regular and changed lanes, or all lanes once every ALL_LANES_POLL_S."""
        now_s = time.monotonic()
        if now_s - self._all_lanes_polled_at_s < ALL_LANES_POLL_S:
            return self._regular_lanes() | changed
        names = await self._reader.lane_names()
        self._all_lanes_polled_at_s = now_s
        return names

    def _regular_lanes(self) -> set[LaneName]:
        """Return the lanes of registered jobs and schedules, and lanes with recent claims."""
        return {CRON_LANE, *(job.lane for job in self._jobs.values()), *self._extra_lanes}

    async def _claim_from(self, lanes: Collection[LaneName]) -> None:
        """Claim from all these lanes with few commands. If a command fails, claim lane by lane.

        A row that cannot be read fails every claim in its lane. Such a lane gets separate claims
        until one of them succeeds, so that it does not fail the claims of other lanes.
        """
        names = sorted(lanes)
        separate = [lane for lane in names if lane in self._failed_lanes]
        together = [lane for lane in names if lane not in self._failed_lanes]
        for first in range(0, len(together), CLAIM_LANE_COUNT_MAX):
            chunk = together[first : first + CLAIM_LANE_COUNT_MAX]
            try:
                await self._claim(chunk)
            except StoreFailed:
                separate += chunk
        for lane in separate:
            try:
                await self._claim([lane])
            except StoreFailed as error:
                self._failed_lanes.add(lane)
                log.warning("claim_failed", extra={"lane": lane, "reason": str(error)})
            else:
                self._failed_lanes.discard(lane)

    async def _claim(self, lanes: Collection[LaneName]) -> None:
        command = self._claim_command(lanes)
        answer = await self._store.apply(command)
        self._on_answered(command, answer)
        self._add_extra_lanes(answer)

    def _piggyback_claim(self, command: Command[Any]) -> ClaimRuns | None:
        if not command.may_free_capacity or not self._jobs:
            return None
        lanes = self._regular_lanes() - self._failed_lanes
        return self._claim_command(lanes) if lanes else None

    def _claim_command(self, lanes: Collection[LaneName]) -> ClaimRuns:
        return ClaimRuns(
            lanes=tuple(sorted(lanes)),
            instance_id=self.instance_id,
            jobs=frozenset(self._jobs),
            count=CLAIM_COUNT_MAX,
            nonce=self._ids.nonce(),
        )

    def _on_answered(self, command: ClaimRuns, answer: Sequence[ClaimedRun] | InstanceLost) -> None:
        if not isinstance(answer, InstanceLost) and len(answer) >= command.count:
            self._wake.set()  # There may be more ready runs.
        self._on_answer(command.instance_id, answer)

    def _add_extra_lanes(self, answer: Sequence[ClaimedRun] | InstanceLost) -> None:
        """Add the lanes in which a poll has claimed runs to the regular lanes."""
        lanes = set() if isinstance(answer, InstanceLost) else {run.lane for run in answer}
        for lane in lanes - self._regular_lanes():
            self._extra_lanes[lane] = None
            self._wake.set()  # Commands in the meantime carried no claim for this lane.
            # Events still cause polls of a lane that is displaced here.
            if len(self._extra_lanes) > EXTRA_LANE_COUNT_MAX:
                del self._extra_lanes[next(iter(self._extra_lanes))]

    def _on_other_events(self, events: Sequence[Event]) -> None:
        self._mark_changed_lanes(events)
        if any(event.type in CLAIM_TRIGGERS for event in events):
            self._wake.set()

    def _mark_changed_lanes(self, events: Sequence[Event]) -> None:
        """Schedule a poll of the lanes in which these events occurred, except regular lanes."""
        lanes = {event.lane for event in events if event.type in CLAIM_TRIGGERS}
        changed = {lane for lane in lanes - self._regular_lanes() if lane is not None}
        if changed and self._jobs:
            self._changed_lanes |= changed
            self._wake.set()
