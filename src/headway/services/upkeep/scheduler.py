"""The schedules of one process: fire the due ones, and wait for the next fire time.

Several instances may run the same schedules. The row of a schedule decides which instance fires,
and the database's clock decides when. The database's answer includes the time to wait, so the local
wall clock is not used.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, assert_never, cast

from headway.core.command.admin.schedules import (
    Fired,
    FireDropped,
    FireSchedule,
    NotDue,
    ScheduleReset,
)
from headway.core.errors import InfrastructureError, InvalidInput, StoreClosed
from headway.core.ids import CRON_LANE, SECOND_US, Key
from headway.core.schedule import MissedPolicy, Schedule
from headway.core.suggest import suggest_names
from headway.log import event_log
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.ports.store import Store
from headway.services.background_tasks import BackgroundTasks
from headway.services.submit.job import Job, encode_params

SCHEDULE_COUNT_MAX: Final = 1_000
# A jump of the database's clock is noticed within this time.
POLL_S_MAX: Final = 30.0
# The minimum time between two polls. Otherwise an imminent fire time would cause a busy loop.
POLL_S_MIN: Final = 0.01
RETRY_S: Final = 1.0

log = event_log(__name__)


@asynccontextmanager
async def open_scheduler(
    store: Store, ids: IdSource, clock: Clock, schedules: Sequence[Schedule]
) -> AsyncIterator[None]:
    """Fire `schedules` until the `async with` block ends.

    If firing fails, cancel the body of the block and raise the error.
    """
    async with BackgroundTasks() as background:
        background.start_loop(run_schedules(store, ids, clock, schedules))
        yield


async def run_schedules(
    store: Store, ids: IdSource, clock: Clock, schedules: Sequence[Schedule]
) -> None:
    """Fire `schedules` until this call is canceled.

    After an outage of the database, the policy of each schedule decides about missed fire times.
    Any other error is raised and ends the program: if it were only logged, no schedule would fire.
    """
    while schedules:  # With schedules, this ends only by cancellation.
        try:
            wait_s = await fire_due(store, ids, schedules)
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("schedule_poll_failed", extra={"reason": str(error)})
            wait_s = RETRY_S
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S_MAX):
                await clock.sleep(wait_s)


async def fire_due(store: Store, ids: IdSource, schedules: Sequence[Schedule]) -> float:
    """Fire all due schedules in one transaction. Return the seconds until the next poll."""
    waits = await asyncio.gather(*(_fire(store, ids, schedule) for schedule in schedules))
    return max(POLL_S_MIN, min(waits))


async def _fire(store: Store, ids: IdSource, schedule: Schedule) -> float:
    """Fire a schedule if it is due. Return the seconds until its next fire time.

    Return 0 if the schedule has just fired or changed: another fire time may already be due.
    """
    answer = await store.apply(FireSchedule(schedule, ids.run_id()))
    fields = {"schedule": schedule.name, "expression": schedule.expression}
    match answer:
        case NotDue(next_fire_at, now):
            return (next_fire_at - now) / SECOND_US
        case ScheduleReset():
            log.info("schedule_created", extra=fields)
        case FireDropped(fire_at):
            log.warning("schedule_dropped", extra={**fields, "fire_at": fire_at})
        case Fired(fire_at, submitted):
            outcome = type(submitted).__name__
            log.info("schedule_fired", extra={**fields, "fire_at": fire_at, "outcome": outcome})
        case _:
            assert_never(answer)
    return 0.0


def find_schedule(schedules: Mapping[str, Schedule], name: str) -> Schedule:
    """Return the schedule with this name. Raise InvalidInput if it is not registered."""
    if name not in schedules:
        known = suggest_names(name, schedules)
        raise InvalidInput("schedule", f"{name!r} is not registered; registered schedules: {known}")
    return schedules[name]


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
    """Add a schedule of `job` to `schedules`. Raise InvalidInput if it is invalid."""
    schedule_name = job.name if name is None else name
    schedule = Schedule(
        name=schedule_name,
        expression=expression,
        job=job.name,
        key=Key(schedule_name if key is None else key),
        params=encode_params(job, params),
        time_zone=time_zone,
        missed=cast("MissedPolicy", missed),  # Schedule checks and converts the value.
        timeout_s=job.timeout_s,
        queue_timeout_s=job.queue_timeout_s,
        recovery=job.recovery,
        lane=CRON_LANE if job.concurrency is None else job.lane,
    )
    if schedule.name in schedules:
        problem = f"a schedule {schedule.name!r} is already registered; choose another name"
        raise InvalidInput("name", problem)
    if len(schedules) >= SCHEDULE_COUNT_MAX:
        problem = f"{SCHEDULE_COUNT_MAX:,} schedules are already registered, which is the limit"
        raise InvalidInput("name", problem)
    schedules[schedule.name] = schedule
