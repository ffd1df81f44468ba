"""Find what nobody else will move: runs of dead instances, children of runs that are over, and
runs whose time has come.

Several instances may sweep at once: each command looks again, on locked rows and by the database's
clock, before it does anything.
"""

from typing import Final

from headway.core.command.cancel import ForceCancel
from headway.core.command.expire import Expire
from headway.core.command.instance import DeclareDead, ReleaseOrphan, RetireInstance
from headway.core.command.wait import Wake
from headway.core.ids import InstanceId, Instant
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.family import end_children

COUNT_MAX: Final = 500


async def sweep(store: Store, reader: RunReader) -> None:
    """One round; what is left over after it waits for the next."""
    now = await reader.now()
    for instance in await reader.instances():
        if instance.is_dead or instance.lease_expires_at <= now:
            await _bury(store, reader, instance.id)
    for run in await reader.runs_due(now, limit=COUNT_MAX):
        if run.children_by is not None:
            await end_children(store, reader, run.id)
        command = _command_for(run, now)
        if command is not None:
            await store.apply(command)


async def _bury(store: Store, reader: RunReader, instance_id: InstanceId) -> None:
    if not await store.apply(DeclareDead(instance_id)):
        return  # It has renewed its lease in the meantime.
    held = await reader.runs_held_by(instance_id, limit=COUNT_MAX)
    for run in held:
        await store.apply(ReleaseOrphan(run.id, instance_id))
    if len(held) < COUNT_MAX:
        await store.apply(RetireInstance(instance_id))


def _command_for(run: Run, now: Instant) -> Expire | ForceCancel | Wake | None:
    if run.status in TERMINAL:  # Only its children were left.
        return None
    if run.status is RunStatus.CANCELLING:
        return ForceCancel(run.id)
    if run.status is RunStatus.RUNNING and (run.run_by is None or run.run_by > now):
        return Wake(run.id)
    return Expire(run.id)
