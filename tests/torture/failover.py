"""`failover`: under load the database moves to another server, and the old one comes back."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from sqlalchemy.exc import DBAPIError

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.command.admin.lane_limits import SetLane
from headway.core.errors import InfrastructureError
from headway.core.ids import MAIN_LANE, Instant, add_seconds
from tests.torture.claims import LANE_LIMIT, Size, Step, until_quiet
from tests.torture.crowd import Crowd, crowd
from tests.torture.load import Load
from tests.torture.pairs import Pair
from tests.torture.replay import Findings, replay

TTL_S: Final = 8.0
OUTAGE_S_MAX: Final = 60.0
ALONE_S: Final = 3.0


async def fail_over(pair: Pair, size: Size, step: Step) -> Findings:
    """Let processes work on a pair of servers that fails over, back, and over again."""
    store = await open_store(pair.urls)
    findings = Findings()
    try:
        await store.apply(SetLane(name=MAIN_LANE, max_concurrent=LANE_LIMIT))
        with tempfile.TemporaryDirectory(prefix="headway-ledgers-") as folder:
            faults, stale_count = await _load(store, pair, Path(folder), size, step)
            findings = await replay(
                store, Path(folder), lane_limits={MAIN_LANE: LANE_LIMIT}, anyone_was_killed=True
            )
    finally:
        await store.close()
    findings.faults += faults
    findings.stale_writes = stale_count
    return findings


async def _load(
    store: SqlStore, pair: Pair, folder: Path, size: Size, step: Step
) -> tuple[list[str], int]:
    load = Load(
        urls=pair.urls,
        folder=str(folder),
        key_count=size.key_count,
        submit_count=size.run_count // size.process_count,
        lane_limit=LANE_LIMIT,
        ttl_s=TTL_S,
        outage_s=OUTAGE_S_MAX,
    )
    stale_count = 0
    with crowd(load, size.process_count) as them:
        await _until_all_moved(store, them)
        for done_count in range(0, size.failover_count, 2):
            stale_count += await _there_and_back(store, pair, them)
            step(done_count + 2)
        them.drain()
        await until_quiet(store, them, size, step)
    return them.faults, stale_count


async def _there_and_back(store: SqlStore, pair: Pair, them: Crowd) -> int:
    """Fail over twice, with an old primary alone in between; return its new writes."""
    await asyncio.to_thread(pair.fail_over)
    await _until_all_moved(store, them)
    came_with = await asyncio.to_thread(pair.bring_back_alone)
    await asyncio.sleep(ALONE_S)
    state = await asyncio.to_thread(pair.old_state)
    await asyncio.to_thread(pair.end_the_confusion)
    await _until_all_moved(store, them)
    await asyncio.to_thread(pair.fail_back)
    await _until_all_moved(store, them)
    return sum(state) - sum(came_with)


async def _until_all_moved(store: SqlStore, them: Crowd) -> None:
    """Wait until each process has renewed its lease on the current primary.

    A process that has not connected there could not detect that the old primary, should it come
    back, is outdated.
    """
    since = Instant(time.time_ns() // 1_000)
    give_up_at_s = time.monotonic() + OUTAGE_S_MAX
    while time.monotonic() < give_up_at_s:
        them.check()
        try:
            # A process that only reads may still read the old primary.
            await store.apply(SetLane(name=MAIN_LANE, max_concurrent=LANE_LIMIT))
            instances = await store.runs.instances()
        except (InfrastructureError, DBAPIError, OSError):
            instances = []
        seen_at = [add_seconds(one.lease_expires_at, seconds=-TTL_S) for one in instances]
        if sum(at > since for at in seen_at) >= them.count:
            return
        await asyncio.sleep(0.1)
    them.faults.append(f"not every process was back within {OUTAGE_S_MAX:g} s")
