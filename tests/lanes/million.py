"""`python -m tests.lanes.million`: how many blocks of memory are in use before and after.

Before; after one million sessions, one by one; after ten thousand more, all at once.
"""

import asyncio
import gc
import sys

from headway.lanes import Lanes
from tests.lanes.scenes import settle

KEY_COUNT = 1_000_000


async def work() -> str:
    return "done"


async def one_by_one(lanes: Lanes, numbers: range) -> int:
    for number in numbers:
        await lanes.run_in_session(f"one-{number}", work)
    gc.collect()
    return sys.getallocatedblocks()


async def all_at_once(lanes: Lanes, numbers: range) -> int:
    """Most of them wait in the global lane."""
    calls = (lanes.run_in_session(f"many-{number}", work) for number in numbers)
    await asyncio.gather(*calls)
    await settle()  # The loop throws away cancelled timers when it next looks at them.
    gc.collect()
    return sys.getallocatedblocks()


async def main() -> None:
    lanes = Lanes()
    await all_at_once(lanes, range(2_000))
    before = await one_by_one(lanes, range(1_000))
    after = await one_by_one(lanes, range(1_000, KEY_COUNT))
    after_a_crowd = await all_at_once(lanes, range(10_000, 20_000))
    assert (lanes._table._lanes, lanes._start_signals._waiters) == ({}, {})
    print(before, after, after_a_crowd)


if __name__ == "__main__":
    asyncio.run(main())
