"""`claims`: eight processes share one database. `kills`: the same, with repeated kills."""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.command.admin.lane_limits import SetLane
from headway.core.ids import MAIN_LANE
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.ports.run_reader import RunFilter
from tests.torture.crowd import Crowd, crowd
from tests.torture.load import Load
from tests.torture.replay import Findings, replay

PROCESS_COUNT: Final = 8
KEY_COUNT: Final = 500
LANE_LIMIT: Final = 16
TTL_S: Final = 3.0
QUIET_S_MAX: Final = 60.0
MOVES_BETWEEN_KILLS: Final = 100

Step = Callable[[int], None]
"""Called with how much is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    run_count: int
    kill_count: int = 0
    pause_count: int = 0
    failover_count: int = 0
    deadly_count: int = 0
    """Runs that kill every process that executes them."""
    process_count: int = PROCESS_COUNT
    key_count: int = KEY_COUNT

    @property
    def fault_count(self) -> int:
        """Return the number of planned faults. A load with faults continues until all are done."""
        return self.kill_count + self.pause_count + self.failover_count


async def torture(urls: Sequence[str], size: Size, step: Step) -> Findings:
    """Load the database with processes, kill as many as requested, and check the result."""
    store = await open_store(urls)
    try:
        await store.apply(SetLane(name=MAIN_LANE, max_concurrent=LANE_LIMIT))
        with tempfile.TemporaryDirectory(prefix="headway-ledgers-") as folder:
            faults = await _load(store, urls, Path(folder), size, step)
            findings = await replay(
                store,
                Path(folder),
                lane_limits={MAIN_LANE: LANE_LIMIT},
                anyone_was_killed=size.kill_count > 0,
            )
    finally:
        await store.close()
    findings.faults += faults
    return findings


async def _load(
    store: SqlStore, urls: Sequence[str], folder: Path, size: Size, step: Step
) -> list[str]:
    load = Load(
        urls=list(urls),
        folder=str(folder),
        key_count=size.key_count,
        submit_count=size.run_count // size.process_count,
        lane_limit=LANE_LIMIT,
        # A slow process must not be declared dead, unless kills are the subject.
        ttl_s=TTL_S if size.kill_count else 60.0,
    )
    with crowd(load, size.process_count) as them:
        if size.kill_count:
            await _kill(store, them, size, step)
            them.drain()
        await until_quiet(store, them, size, step)
    return them.faults


async def _kill(store: SqlStore, them: Crowd, size: Size, step: Step) -> None:
    chance = random.Random()
    for killed_count in range(size.kill_count):
        await _moved(store)
        await asyncio.sleep(chance.uniform(0, 0.5))
        them.kill(chance.randrange(size.process_count))
        step(killed_count + 1)


async def _moved(store: SqlStore) -> None:
    """Wait until work is in flight: killing processes that only start up proves nothing."""
    wanted_seq = await seq_of(store) + MOVES_BETWEEN_KILLS
    while await seq_of(store) < wanted_seq:  # noqa: ASYNC110  # Other processes make it move.
        await asyncio.sleep(0.05)


async def until_quiet(store: SqlStore, them: Crowd, size: Size, step: Step) -> None:
    """Wait until everything submitted has ended. Fail if there is no progress for long."""
    last_seq, moved_at_s = 0, time.monotonic()
    while time.monotonic() < moved_at_s + QUIET_S_MAX:
        seq = await seq_of(store)
        if seq != last_seq:
            last_seq, moved_at_s = seq, time.monotonic()
        if not size.fault_count:
            step(min(seq // 3, size.run_count))
        enough = size.fault_count > 0 or seq >= 3 * (size.run_count // size.process_count)
        if enough and time.monotonic() > moved_at_s + 2.0 and not await _active(store):
            return
        them.check()
        await asyncio.sleep(0.2)
    them.faults.append(f"nothing moved for {QUIET_S_MAX:g} s")


async def seq_of(store: SqlStore) -> int:
    return (await store.events.events(after_seq=0, limit=1)).last_seq


async def _active(store: SqlStore) -> int:
    wanted = RunFilter(statuses=frozenset(RunStatus) - TERMINAL)
    return len([one async for one in store.runs.list_runs(wanted, limit=1)])
