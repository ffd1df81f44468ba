"""The schedules of one process: look, fire what is due, wait for the next slot.

Several instances do the same; the schedule's row decides who fires, and the database's clock when.
How long to wait comes with its answer, so this machine's own clock plays no part.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, assert_never, cast

from headway.core.command.admin.fire_schedule import (
    Fired,
    FireDropped,
    FireSchedule,
    NotDue,
    ScheduleReset,
)
from headway.core.errors import InfrastructureError, InvalidInput, StoreClosed
from headway.core.ids import CRON_LANE, SECOND_US, Key
from headway.core.schedule import MissedPolicy, Schedule
from headway.log import event_log
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.ports.store import Store
from headway.services.submit.job import Job, encode_params

SCHEDULE_COUNT_MAX: Final = 1_000
# When the database's clock jumps, it is noticed within this time.
POLL_S_MAX: Final = 30.0
# Never less than this between two looks, or a slot that is a hair away would be asked for and asked
# for again.
POLL_S_MIN: Final = 0.01
RETRY_S: Final = 1.0

log = event_log(__name__)


class Scheduler:
    """Fires its schedules inside `async with`. If it dies there, the body is cancelled, and its
    error raised."""

    def __init__(
        self, store: Store, ids: IdSource, clock: Clock, schedules: Sequence[Schedule]
    ) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._schedules = schedules

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._fire_task = self._group.create_task(
            run_schedules(self._store, self._ids, self._clock, self._schedules)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._fire_task.cancel()
        died_of: BaseException | None = None
        try:
            await self._group.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as errors:  # The group wraps whatever it was, the body's too.
            died_of = errors.exceptions[0]
        if died_of is not None:
            raise died_of


async def run_schedules(
    store: Store, ids: IdSource, clock: Clock, schedules: Sequence[Schedule]
) -> None:
    """Fire `schedules` until cancelled. An outage is waited out; then missed slots are decided."""
    while schedules:  # Where there are any, ends by cancellation only.
        try:
            wait_s = await fire_due(store, ids, schedules)
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("schedules_not_looked_at", extra={"reason": str(error)})
            wait_s = RETRY_S
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S_MAX):
                await clock.sleep(wait_s)


async def fire_due(store: Store, ids: IdSource, schedules: Sequence[Schedule]) -> float:
    """One look at all of them, which share a transaction; seconds until the next is worth it."""
    waits = await asyncio.gather(*(_fire(store, ids, schedule) for schedule in schedules))
    return max(POLL_S_MIN, min(waits))


async def _fire(store: Store, ids: IdSource, schedule: Schedule) -> float:
    """Seconds until its next slot; none when something was decided: there may be more."""
    answer = await store.apply(FireSchedule(schedule, ids.run_id()))
    about = {"schedule": schedule.name, "expression": schedule.expression}
    match answer:
        case NotDue(next_fire_at, now):
            return (next_fire_at - now) / SECOND_US
        case ScheduleReset():
            log.info("schedule_begun", extra=about)
        case FireDropped(fire_at):
            log.warning("schedule_dropped", extra={**about, "fire_at": fire_at})
        case Fired(fire_at, submitted):
            outcome = type(submitted).__name__
            log.info("schedule_fired", extra={**about, "fire_at": fire_at, "outcome": outcome})
        case _:
            assert_never(answer)
    return 0.0


def add_schedule(
    schedules: dict[str, Schedule],
    job: Job,
    expression: str,
    *,
    name: str | None,
    key: str | None,
    params: dict[str, Any] | None,
    time_zone: str,
    missed: MissedPolicy | str,
) -> None:
    """Add a schedule of `job` to the others; InvalidInput says what is wrong with it."""
    called = job.name if name is None else name
    schedule = Schedule(
        name=called,
        expression=expression,
        job=job.name,
        key=Key(called if key is None else key),
        params=encode_params(job, params),
        time_zone=time_zone,
        missed=cast("MissedPolicy", missed),  # Checked there, with the rest.
        timeout_s=job.timeout_s,
        queue_timeout_s=job.queue_timeout_s,
        recovery=job.recovery,
        lane=CRON_LANE if job.concurrency is None else job.lane,
    )
    if schedule.name in schedules:
        raise InvalidInput("name", f"{schedule.name!r} is the name of two schedules")
    if len(schedules) >= SCHEDULE_COUNT_MAX:
        raise InvalidInput("name", f"there are {SCHEDULE_COUNT_MAX:,} schedules already")
    schedules[schedule.name] = schedule
