"""Find what nobody else will move: runs of dead instances, children of runs that are over, and
runs whose time has come.

Several instances may sweep at once: each command looks again, on locked rows and by the database's
clock, before it does anything.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.core.command.admin.instance import DeclareDead, ReleaseOrphan, RetireInstance
from headway.core.command.run.cancel import ForceCancel
from headway.core.command.run.expire import Expire
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
"""So many times in a round there may be more; then the engine's other loops are due too."""
LOOKAHEAD_S: Final = 2.0
"""So far ahead a round looks for timers; rounds are not so far apart."""
TICK_S: Final = 0.02
"""Timers that end within it are woken together, by the one that ends last."""

UpcomingTimers = Sequence[tuple[float, RunId]]
"""Parked runs whose timers end before the next round, and in how many seconds, in order."""

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
    """One round: all that is to be done now, of which what comes together shares a transaction.

    `own_id` is the instance that sweeps. Its lease may have run out, when the clock was moved on or
    the machine slept: it lives all the same, unless others have declared it dead.
    """
    now = await reader.now()
    instances = await reader.instances()
    # One process may have had several lives: all are looked at before its lock is removed.
    locks = {instance.life_lock for instance in instances if instance.life_lock is not None}
    free = {lock for lock in locks if life_lock.is_free(lock)}
    for instance in instances:
        is_proven = instance.life_lock in free
        is_over = is_proven or instance.lease_expires_at <= now
        if instance.is_dead or (is_over and instance.id != own_instance_id):
            await _release_dead_instance(
                store, reader, DeclareDead(instance.id, is_proven=is_proven)
            )
    for lock in free:
        life_lock.remove(lock)
    moved: set[RunId] = set()
    for _ in range(PAGE_COUNT_MAX):
        page = await _move_due(store, reader)
        # What would not move waits for the next round.
        if len(page.due) < BATCH_SIZE or page.due <= moved:
            return page.upcoming
        moved |= page.due
    return ()


async def _move_due(store: Store, reader: RunReader) -> _SweepPage:
    """As many as are looked at together."""
    now = await reader.now()
    asked_at_s = time.monotonic()
    found = await reader.runs_due(add_seconds(now, seconds=LOOKAHEAD_S), limit=BATCH_SIZE)
    due = [run for run in found if run.due_at is not None and run.due_at <= now]
    for run in due:
        if run.children_ending_since is not None:
            await end_children(store, reader, run.id)
    commands = [command for run in due if (command := _command_for(run, now)) is not None]
    for answer in await asyncio.gather(*(store.apply(command) for command in commands)):
        log_if_ended(answer)
    passed_s = time.monotonic() - asked_at_s
    soon = [
        ((run.due_at - now) / SECOND_US - passed_s, run.id)
        for run in found[len(due) :]
        if run.is_parked and run.due_at is not None and run.due_at == run.wake_at
    ]
    return _SweepPage({run.id for run in due}, soon)


async def wake_on_time(
    store: Store,
    soon: UpcomingTimers,
    *,
    pending_ids: set[RunId],
    stop_event: asyncio.Event,
) -> None:
    """Wake each when its timer ends, with those that end at about the same time.

    Until then it is among `awaited`. Who is missed, or was a little too early, is found by the
    next round.
    """
    began_s = time.monotonic()
    waiting = deque(soon)
    while waiting:
        in_s = began_s + waiting[0][0] + TICK_S - time.monotonic()
        if await wait_until_set(stop_event, max(0.0, in_s)):
            return
        passed_s = time.monotonic() - began_s
        wakes: list[Wake] = []
        while waiting and waiting[0][0] <= passed_s:
            _, run_id = waiting.popleft()
            pending_ids.discard(run_id)
            wakes.append(Wake(run_id))
        try:
            await asyncio.gather(*map(store.apply, wakes))
        except InfrastructureError:
            continue
        except Exception:  # It costs no more than itself: the next round looks again.
            log.exception("wake_broke")


async def clean_locks(reader: RunReader, life_lock: LifeLock) -> None:
    """Remove the locks of processes that died together, with nobody left to find them."""
    instances = await reader.instances()
    life_lock.remove_stale({instance.life_lock for instance in instances if instance.life_lock})


async def _release_dead_instance(store: Store, reader: RunReader, death: DeclareDead) -> None:
    if not await store.apply(death):
        return  # It has renewed its lease in the meantime.
    instance_id = death.instance_id
    for _ in range(PAGE_COUNT_MAX):
        held = await reader.runs_held_by(instance_id, limit=BATCH_SIZE)
        released = (store.apply(ReleaseOrphan(run.id, instance_id)) for run in held)
        for answer in await asyncio.gather(*released):
            log_if_ended(answer)
        if len(held) < BATCH_SIZE:
            await store.apply(RetireInstance(instance_id))
            return


def _command_for(run: Run, now: Instant) -> Expire | ForceCancel | Wake | None:
    if run.status in TERMINAL:  # Only its children were left.
        return None
    if run.status is RunStatus.CANCELLING:
        return ForceCancel(run.id)
    if run.status is RunStatus.RUNNING and (
        run.run_deadline_at is None or run.run_deadline_at > now
    ):
        return Wake(run.id)
    return Expire(run.id)
