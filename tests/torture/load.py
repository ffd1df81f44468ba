"""One process of the load: it submits, claims, completes, renews and sweeps until it must end.

Its ledger is a file that it appends to: `accepted` after the answer, `started` before the work,
`settled` after it. The database is compared with the ledger.
"""

import asyncio
import json
import logging
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy.exc import DBAPIError

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.system.random_ids import SystemIds
from headway.core.command.admin.instance import (
    DeclareDead,
    RegisterInstance,
    ReleaseOrphan,
    RenewInstance,
)
from headway.core.command.run.claim import ClaimedRun, ClaimRuns, InstanceLost
from headway.core.command.run.settle import Complete, Settled
from headway.core.command.run.submit import Accepted, Submit
from headway.core.errors import DatabaseUnavailable, OutcomeUnknown
from headway.core.ids import MAIN_LANE, Instant, Key
from headway.core.run.admission import OnConflict
from headway.core.run.run import Claim

JOBS: Final = frozenset({"work"})
GROUP_COUNT: Final = 20
DRAIN: Final = "drain"
END: Final = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    urls: list[str]
    folder: str
    """The folder of the ledger, and of the files `drain` and `end`, which the parent creates."""
    key_count: int
    submit_count: int
    """How many runs this process submits in total."""
    lane_limit: int
    ttl_s: float
    outage_s: float = 0.0
    """How long an unreachable database is not counted as an error."""

    @property
    def may_kill_itself(self) -> bool:
        return False

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.torture.load", json.dumps(asdict(self))]


class Worker:
    def __init__(self, load: Load, store: SqlStore) -> None:
        self._load = load
        self._store = store
        self._ids = SystemIds()
        self._instance_id = self._ids.instance_id()
        self._random = random.Random(self._instance_id)
        self._folder = Path(load.folder)
        self._ledger = os.open(
            self._folder / f"{self._instance_id}.ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        )
        self._wake = asyncio.Event()

    async def work(self) -> None:
        await self._register()
        self._store.listen(lambda _: self._wake.set())
        async with asyncio.TaskGroup() as group:
            others = [
                group.create_task(self._repeat(self._load.ttl_s / 3, self._renew)),
                group.create_task(self._repeat(self._load.ttl_s / 2, self._sweep)),
                group.create_task(self._submit()),
                group.create_task(self._claim(group)),
            ]
            await self._wait_for_end()
            for task in others:
                task.cancel()

    async def _register(self) -> None:
        """Register a new instance. Runs of an earlier one are released when its lease ends."""
        self._instance_id = self._ids.instance_id()
        await self._store.apply(
            RegisterInstance(
                instance_id=self._instance_id,
                host="torture",
                pid=os.getpid(),
                ttl_s=self._load.ttl_s,
            )
        )

    def _write(self, *words: object) -> None:
        os.write(self._ledger, (" ".join(map(str, words)) + "\n").encode())

    async def _wait_for_end(self) -> None:
        """Wait for the parent's `end` file or its exit: nothing else would end this process."""
        parent_pid = os.getppid()
        while not (self._folder / END).exists() and os.getppid() == parent_pid:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def _repeat(self, every_s: float, action: Callable[[], Awaitable[None]]) -> None:
        while True:  # Ends by cancellation only.
            await asyncio.sleep(every_s)
            await self._unless_out(action)

    async def _unless_out(self, action: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer of the action; retry while the database may be unavailable."""
        give_up_at_s = time.monotonic() + self._load.outage_s
        while True:  # Until it answers, or has been unavailable for longer than allowed.
            try:
                return await action()
            except (DatabaseUnavailable, OutcomeUnknown, DBAPIError, OSError):
                if time.monotonic() > give_up_at_s:
                    raise
                await asyncio.sleep(0.2)

    async def _renew(self) -> None:
        await self._store.apply(
            RenewInstance(instance_id=self._instance_id, ttl_s=self._load.ttl_s)
        )

    async def _sweep(self) -> None:
        """Release the runs of dead instances. Their leases are judged by the database's clock."""
        now = Instant(time.time_ns() // 1_000)
        for instance in await self._store.runs.instances():
            if instance.is_dead or instance.lease_expires_at <= now:
                if not await self._store.apply(DeclareDead(instance.id)):
                    continue
                for run in await self._store.runs.held_runs(instance.id, limit=1_000):
                    await self._store.apply(ReleaseOrphan(run.id, instance.id))
        self._wake.set()

    async def _submit(self) -> None:
        left_count = self._load.submit_count
        while left_count > 0 and not (self._folder / DRAIN).exists():
            count = min(GROUP_COUNT, left_count)
            left_count -= count
            await asyncio.gather(*(self._submit_one() for _ in range(count)))
            os.fsync(self._ledger)
            await self._room()

    async def _room(self) -> None:
        """Limit the backlog, so that it can be drained quickly."""
        while True:  # The lane is always being drained.
            (lane,) = [view for view in await self._lanes() if view.lane.name == MAIN_LANE]
            if lane.queued_count < 4 * self._load.key_count:
                return
            await asyncio.sleep(0.05)

    async def _lanes(self) -> Any:
        return await self._unless_out(self._store.runs.lanes)

    async def _submit_one(self) -> None:
        run_id = self._ids.run_id()
        submission = Submit(
            run_id=run_id,
            key=Key(f"key-{self._random.randrange(self._load.key_count)}"),
            job="work",
            on_conflict=OnConflict.ENQUEUE,
            # A submission that failed with an outage may have been committed: the repeat shows it.
            idempotency_key=run_id,
            fingerprint=run_id,
        )
        answer = await self._unless_out(lambda: self._store.apply(submission))
        self._write("accepted", run_id, answer.seq if isinstance(answer, Accepted) else 0)

    async def _claim(self, group: asyncio.TaskGroup) -> None:
        while True:  # Ends by cancellation only.
            self._wake.clear()
            claimed = await self._unless_out(self._claim_some)
            if isinstance(claimed, InstanceLost):
                if not self._load.outage_s:
                    raise SystemExit("declared dead although it lives: the machine is too slow")
                await self._unless_out(self._register)
                continue
            for one in claimed:
                group.create_task(self._execute(one))
            if not claimed:
                try:
                    async with asyncio.timeout(0.2):
                        await self._wake.wait()
                except TimeoutError:
                    continue

    async def _claim_some(self) -> tuple[ClaimedRun, ...] | InstanceLost:
        try:
            return await self._store.apply(
                ClaimRuns(
                    lanes=(MAIN_LANE,),
                    instance_id=self._instance_id,
                    jobs=JOBS,
                    count=self._load.lane_limit,
                    nonce=self._ids.nonce(),
                )
            )
        except OutcomeUnknown:
            # It may hold runs that it does not know of. A new instance does not.
            return InstanceLost()

    async def _execute(self, claimed: ClaimedRun) -> None:
        self._write("started", claimed.run_id, claimed.generation)
        await asyncio.sleep(self._random.uniform(0, 0.004))
        claim = Claim(claimed.run_id, claimed.token)
        answer = await self._unless_out(lambda: self._store.apply(Complete(claim)))
        word = "settled" if isinstance(answer, Settled) else "refused"
        self._write(word, claimed.run_id, claimed.generation)
        self._wake.set()


async def main(load: Load) -> None:
    # Recovered errors are logged as warnings; only errors count as faults.
    logging.getLogger("headway").setLevel(logging.ERROR)
    store = await open_store(load.urls)
    try:
        await Worker(load, store).work()
    finally:
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(Load(**json.loads(sys.argv[1]))))
