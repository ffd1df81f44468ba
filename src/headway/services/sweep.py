"""Find what nobody else will move: runs of dead instances, children of runs that are over, and
runs whose time has come.

Several instances may sweep at once: each command looks again, on locked rows and by the database's
clock, before it does anything.
"""

import asyncio
from typing import Final

from headway.core.command.cancel import ForceCancel
from headway.core.command.expire import Expire
from headway.core.command.instance import DeclareDead, ReleaseOrphan, RetireInstance
from headway.core.command.wait import Wake
from headway.core.ids import Instant, RunId
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.ports.life_lock import LifeLock
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.family import end_children

COUNT_MAX: Final = 500
PAGE_COUNT_MAX: Final = 20
"""So many times in a round there may be more; then the engine's other loops are due too."""


async def sweep(store: Store, reader: RunReader, life_lock: LifeLock) -> None:
    """One round: all that is to be done now, of which what comes together shares a transaction."""
    now = await reader.now()
    instances = await reader.instances()
    # One process may have had several lives: all are looked at before its lock is removed.
    locks = {instance.life_lock for instance in instances if instance.life_lock is not None}
    free = {lock for lock in locks if life_lock.is_free(lock)}
    for instance in instances:
        is_proven = instance.life_lock in free
        if is_proven or instance.is_dead or instance.lease_expires_at <= now:
            await _bury(store, reader, DeclareDead(instance.id, is_proven=is_proven))
    for lock in free:
        life_lock.remove(lock)
    moved: set[RunId] = set()
    for _ in range(PAGE_COUNT_MAX):
        due = await _move_due(store, reader)
        if len(due) < COUNT_MAX or due <= moved:  # What would not move waits for the next round.
            return
        moved |= due


async def _move_due(store: Store, reader: RunReader) -> set[RunId]:
    """Those that were due, of as many as are looked at together."""
    now = await reader.now()
    due = await reader.runs_due(now, limit=COUNT_MAX)
    for run in due:
        if run.children_by is not None:
            await end_children(store, reader, run.id)
    commands = [command for run in due if (command := _command_for(run, now)) is not None]
    await asyncio.gather(*(store.apply(command) for command in commands))
    return {run.id for run in due}


async def clean_locks(reader: RunReader, life_lock: LifeLock) -> None:
    """Remove the locks of processes that died together, with nobody left to find them."""
    instances = await reader.instances()
    life_lock.clean({instance.life_lock for instance in instances if instance.life_lock})


async def _bury(store: Store, reader: RunReader, death: DeclareDead) -> None:
    if not await store.apply(death):
        return  # It has renewed its lease in the meantime.
    instance_id = death.instance_id
    for _ in range(PAGE_COUNT_MAX):
        held = await reader.runs_held_by(instance_id, limit=COUNT_MAX)
        await asyncio.gather(*(store.apply(ReleaseOrphan(run.id, instance_id)) for run in held))
        if len(held) < COUNT_MAX:
            await store.apply(RetireInstance(instance_id))
            return


def _command_for(run: Run, now: Instant) -> Expire | ForceCancel | Wake | None:
    if run.status in TERMINAL:  # Only its children were left.
        return None
    if run.status is RunStatus.CANCELLING:
        return ForceCancel(run.id)
    if run.status is RunStatus.RUNNING and (run.run_by is None or run.run_by > now):
        return Wake(run.id)
    return Expire(run.id)
