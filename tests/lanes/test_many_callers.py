"""Many simultaneous callers, some of which fail, are cancelled or time out (R3.5, R3.12)."""

import asyncio
from collections import Counter
from random import Random

import pytest

from headway.lanes import Lanes, Priority, TaskTimedOut

LIMIT = 4
CALL_COUNT = 400


class CallerCrowd:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.lanes = Lanes({"main": LIMIT}, grace_s=5)
        self.working: Counter[str] = Counter()
        self.begun: dict[str, list[int]] = {}

    async def call(self, number: int) -> None:
        key = f"key-{self.random.randrange(12)}"
        await self.lanes.run_in_session(
            key,
            lambda: self.work(key, number),
            priority=self.random.choice(list(Priority)),
            timeout_s=self.random.choice([None, 0.02]),
        )

    async def work(self, key: str, number: int) -> None:
        self.working[key] += 1
        self.begun.setdefault(key, []).append(number)
        try:
            assert self.working[key] == 1
            assert self.working.total() <= LIMIT
            for _ in range(self.random.randrange(5)):
                await asyncio.sleep(0)
            fate = self.random.randrange(20)
            if fate == 0:
                raise ValueError(number)
            if fate == 1:
                await asyncio.sleep(0.03)
        finally:
            self.working[key] -= 1


@pytest.mark.proves("R3.12")
@pytest.mark.parametrize("seed", range(3))
async def test_many_callers_run_in_order_within_the_limits(seed: int) -> None:
    crowd = CallerCrowd(seed)
    calls = [asyncio.create_task(crowd.call(number)) for number in range(CALL_COUNT)]
    for call in crowd.random.sample(calls, CALL_COUNT // 5):
        await asyncio.sleep(0)
        call.cancel()
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*calls, return_exceptions=True)
    kinds = Counter(type(answer) for answer in answers)
    assert set(kinds) <= {type(None), ValueError, asyncio.CancelledError, TaskTimedOut}
    assert all(begun == sorted(begun) for begun in crowd.begun.values())
    assert crowd.working.total() == 0
    assert (crowd.lanes._table._lanes, crowd.lanes._start_signals._waiters) == ({}, {})
