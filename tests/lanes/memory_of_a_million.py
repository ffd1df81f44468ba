"""`python -m tests.lanes.memory_of_a_million`: print the number of memory blocks in use.

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


async def run_one_by_one(lanes: Lanes, numbers: range) -> int:
    for number in numbers:
        await lanes.run_in_session(f"one-{number}", work)
    gc.collect()
    return sys.getallocatedblocks()


async def run_all_at_once(lanes: Lanes, numbers: range) -> int:
    """Most of the sessions wait in the global lane."""
    calls = (lanes.run_in_session(f"many-{number}", work) for number in numbers)
    await asyncio.gather(*calls)
    await settle()  # The loop discards cancelled timers when it next checks them.
    gc.collect()
    return sys.getallocatedblocks()


async def main() -> None:
    lanes = Lanes()
    await run_all_at_once(lanes, range(2_000))
    before = await run_one_by_one(lanes, range(1_000))
    after = await run_one_by_one(lanes, range(1_000, KEY_COUNT))
    after_a_crowd = await run_all_at_once(lanes, range(10_000, 20_000))
    assert (lanes._table._lanes, lanes._start_signals._waiters) == ({}, {})
    print(before, after, after_a_crowd)


if __name__ == "__main__":
    asyncio.run(main())
