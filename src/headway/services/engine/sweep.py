"""Sweep: release runs of dead instances, end children, and apply due deadlines and timers.

Several instances may sweep at once. Each command checks its conditions again, on locked rows and
with the database's clock, before it changes anything.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.core.command.admin.instance import DeclareDead, ReleaseOrphan, RetireInstance
from headway.core.command.run.cancel import ForceCancel
from headway.core.command.run.end_run import Expire
from headway.core.command.run.wait import Wake
from headway.core.errors import InfrastructureError
from headway.core.ids import SECOND_US, InstanceId, Instant, RunId, add_seconds
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.log import event_log
from headway.ports.life_lock import LifeLock
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.end_children import end_children
from headway.services.job_errors import log_if_ended
from headway.services.retrying import wait_until_set

BATCH_SIZE: Final = 500
PAGE_COUNT_MAX: Final = 20
"""The maximum number of pages of one round. The next round processes the remaining pages."""
LOOKAHEAD_S: Final = 2.0
"""How far ahead a round reads timers: further than the time until the next round."""
TICK_S: Final = 0.02
"""Runs whose timers expire within this time of each other are woken together.

They are woken when the last timer expires.
"""

UpcomingTimers = Sequence[tuple[float, RunId]]
"""The parked runs whose timers expire soon, each as (seconds left, run id), soonest first."""

log = event_log(__name__)


class _SweepPage(NamedTuple):
    due: set[RunId]
    upcoming: UpcomingTimers


async def sweep(
    store: Store,
    reader: RunReader,
    life_lock: LifeLock,
    *,
    own_instance_id: InstanceId | None = None,
) -> UpcomingTimers:
    """Run one round of the sweep, and return the timers that expire before the next round.

    The commands of a round share transactions. `own_instance_id` is the instance that sweeps. Its
    lease may have expired because the clock was set forward or the machine was suspended. An
    instance never declares itself dead; only other instances do.
    """
    now = await reader.now()
    instances = await reader.instances()
    # A process may have registered several instances: release all of them before removing a lock.
    locks = {instance.life_lock for instance in instances if instance.life_lock is not None}
    free = {lock for lock in locks if life_lock.is_free(lock)}
    for instance in instances:
        is_proven = instance.life_lock in free
        is_expired = is_proven or instance.lease_expires_at <= now
        if instance.is_dead or (is_expired and instance.id != own_instance_id):
            await _release_dead_instance(
                store, reader, DeclareDead(instance.id, is_proven=is_proven)
            )
    for lock in free:
        life_lock.remove(lock)
    moved: set[RunId] = set()
    for _ in range(PAGE_COUNT_MAX):
        page = await _move_due(store, reader)
        # Runs that could not be moved wait for the next round.
        if len(page.due) < BATCH_SIZE or page.due <= moved:
            return page.upcoming
        moved |= page.due
    return ()


async def _move_due(store: Store, reader: RunReader) -> _SweepPage:
    """Process at most BATCH_SIZE due runs. Return their ids and the timers that expire next."""
    now = await reader.now()
    read_at_s = time.monotonic()
    runs = await reader.runs_due(add_seconds(now, seconds=LOOKAHEAD_S), limit=BATCH_SIZE)
    due = [run for run in runs if run.due_at is not None and run.due_at <= now]
    for run in due:
        if run.children_ending_since is not None:
            await end_children(store, reader, run.id)
    commands = [command for run in due if (command := _command_for(run, now)) is not None]
    for answer in await asyncio.gather(*(store.apply(command) for command in commands)):
        log_if_ended(answer)
    elapsed_s = time.monotonic() - read_at_s
    upcoming = [
        ((run.due_at - now) / SECOND_US - elapsed_s, run.id)
        for run in runs[len(due) :]
        if run.is_parked and run.due_at is not None and run.due_at == run.wake_at
    ]
    return _SweepPage({run.id for run in due}, upcoming)


async def wake_on_time(
    store: Store,
    timers: UpcomingTimers,
    *,
    pending_ids: set[RunId],
    stop_event: asyncio.Event,
) -> None:
    """Wake each run when its timer expires, together with runs that are due within TICK_S.

    Remove each run from `pending_ids` when it is woken. The next round of the sweep finds runs that
    were missed or woken slightly too early.
    """
    started_s = time.monotonic()
    waiting = deque(timers)
    while waiting:
        wait_s = started_s + waiting[0][0] + TICK_S - time.monotonic()
        if await wait_until_set(stop_event, max(0.0, wait_s)):
            return
        elapsed_s = time.monotonic() - started_s
        wakes: list[Wake] = []
        while waiting and waiting[0][0] <= elapsed_s:
            _, run_id = waiting.popleft()
            pending_ids.discard(run_id)
            wakes.append(Wake(run_id))
        try:
            await asyncio.gather(*map(store.apply, wakes))
        except InfrastructureError:
            continue
        except Exception:  # The next round finds these runs again.
            log.exception("wake_crashed")


async def clean_locks(reader: RunReader, life_lock: LifeLock) -> None:
    """Remove the life locks of ended processes, except locks of registered instances."""
    instances = await reader.instances()
    life_lock.remove_stale({instance.life_lock for instance in instances if instance.life_lock})


async def _release_dead_instance(store: Store, reader: RunReader, command: DeclareDead) -> None:
    if not await store.apply(command):
        return  # The instance has renewed its lease in the meantime.
    instance_id = command.instance_id
    for _ in range(PAGE_COUNT_MAX):
        held = await reader.held_runs(instance_id, limit=BATCH_SIZE)
        released = (store.apply(ReleaseOrphan(run.id, instance_id)) for run in held)
        for answer in await asyncio.gather(*released):
            log_if_ended(answer)
        if len(held) < BATCH_SIZE:
            await store.apply(RetireInstance(instance_id))
            return


def _command_for(run: Run, now: Instant) -> Expire | ForceCancel | Wake | None:
    if run.status in TERMINAL:  # The run was due only because of its children.
        return None
    if run.status is RunStatus.CANCELLING:
        return ForceCancel(run.id)
    if run.status is RunStatus.RUNNING and (
        run.run_deadline_at is None or run.run_deadline_at > now
    ):
        return Wake(run.id)
    return Expire(run.id)
