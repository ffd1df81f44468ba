"""The workloads: concurrent callers of the store."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from headway.adapters.sql.connect.sqlite import Durability
from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.system.random_ids import SystemIds
from headway.core.command.admin.instance import RegisterInstance
from headway.core.command.admin.lane_limits import LIMIT_MAX, SetLane
from headway.core.command.run.claim import ClaimedRun, ClaimRuns, InstanceLost
from headway.core.command.run.settle import Complete, Settled
from headway.core.command.run.submit import Accepted, Submit
from headway.core.document import Document
from headway.core.ids import MAIN_LANE, InstanceId, Key, RunId
from headway.core.run.run import Claim

JOB: Final = "mirror"
JOBS: Final = frozenset({JOB})
PARAMS: Final = Document('{"url":"https://example.com/' + "a" * 80 + '","kinds":["jpg"]}')
RESULT: Final = Document('{"files":3}')
CLAIM_COUNT: Final = 1_000
LEASE_S: Final = 3_600.0

_ids: Final = SystemIds()


class Keys:
    """Return a new key for each run, rising like the run ids; or a few keys, used in turn."""

    def __init__(self, key_count: int | None = None) -> None:
        self._prefix = _ids.nonce()[:6] if key_count is None else "again"
        self._key_count = key_count
        self._numbers = count()

    def next(self) -> Key:
        number = next(self._numbers)
        if self._key_count is not None:
            # Keys used in sequence are not neighbors by name, as with returning accounts.
            number = number * 7_919 % self._key_count
        return Key(f"account-{self._prefix}-{number:08}")


@asynccontextmanager
async def working_store(
    url: str, *, durability: Durability
) -> AsyncIterator[tuple[SqlStore, InstanceId]]:
    """Open a store with an instance that may claim, and a lane with a very large limit."""
    store = await open_store([url], durability=durability)
    try:
        instance_id = _ids.instance_id()
        await store.apply(
            RegisterInstance(instance_id=instance_id, host="bench", pid=os.getpid(), ttl_s=LEASE_S)
        )
        await store.apply(SetLane(name=MAIN_LANE, max_concurrent=LIMIT_MAX))
        yield store, instance_id
    finally:
        await store.close()


async def submit_one(store: SqlStore, run_id: RunId, key: Key) -> None:
    answer = await store.apply(Submit(run_id=run_id, key=key, job=JOB, params=PARAMS))
    assert isinstance(answer, Accepted), answer


async def claim_up_to(
    store: SqlStore, instance_id: InstanceId, claim_count: int
) -> tuple[ClaimedRun, ...]:
    claimed = await store.apply(
        ClaimRuns(
            lanes=(MAIN_LANE,),
            instance_id=instance_id,
            jobs=JOBS,
            count=claim_count,
            nonce=_ids.nonce(),
        )
    )
    assert not isinstance(claimed, InstanceLost)
    return claimed


async def settle_one(store: SqlStore, claimed: ClaimedRun) -> None:
    answer = await store.apply(Complete(Claim(claimed.run_id, claimed.token), RESULT))
    assert isinstance(answer, Settled), answer


async def cycle_once(store: SqlStore, instance_id: InstanceId) -> None:
    await submit_one(store, _ids.run_id(), Keys().next())
    (claimed,) = await claim_up_to(store, instance_id, 1)
    await settle_one(store, claimed)


class Submits:
    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._keys = Keys()

    async def __call__(self) -> bool:
        await submit_one(self._store, _ids.run_id(), self._keys.next())
        return True


class Claims:
    """Each caller claims one run; no slot is released."""

    def __init__(self, store: SqlStore, instance_id: InstanceId) -> None:
        self._store = store
        self._instance_id = instance_id

    async def __call__(self) -> bool:
        return bool(await claim_up_to(self._store, self._instance_id, 1))


class Cycles:
    """Each caller submits a run, waits until it is claimed, and settles it.

    One task claims for all of them, as an engine would.
    """

    def __init__(
        self, store: SqlStore, instance_id: InstanceId, key_count: int | None = None
    ) -> None:
        self._store = store
        self._instance_id = instance_id
        self._keys = Keys(key_count)
        self._claimed: dict[RunId, asyncio.Future[ClaimedRun]] = {}
        self._is_wanted = asyncio.Event()

    async def __call__(self) -> bool:
        run_id = _ids.run_id()
        claimed = self._claimed[run_id] = asyncio.get_running_loop().create_future()
        await submit_one(self._store, run_id, self._keys.next())
        self._is_wanted.set()
        await settle_one(self._store, await claimed)
        return True

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            claimer = group.create_task(self._claim())
            yield
            claimer.cancel()

    async def _claim(self) -> None:
        while True:  # Ends by cancellation only.
            await self._is_wanted.wait()
            self._is_wanted.clear()
            while got := await claim_up_to(self._store, self._instance_id, CLAIM_COUNT):
                for claimed in got:
                    self._claimed.pop(claimed.run_id).set_result(claimed)


async def repeat(once: Callable[[], Awaitable[bool]], *, callers: int, duration_s: float) -> int:
    """Return how often `callers` concurrent callers did it. False means that nothing is left."""
    until_s = time.perf_counter() + duration_s

    async def call() -> int:
        done_count = 0
        while await once():
            done_count += 1
            if time.perf_counter() >= until_s:
                break
        return done_count

    return sum(await asyncio.gather(*(call() for _ in range(callers))))
