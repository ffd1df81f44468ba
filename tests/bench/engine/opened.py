"""A headway with one job, as all measurements use it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from headway import Headway
from headway.bootstrap import Durability, upgrade_database
from headway.core.ids import MAIN_LANE
from tests.bench.engine.order import Order

SUBMITTER_COUNT: Final = 1_000
LOOK_S: Final = 0.002


@asynccontextmanager
async def opened_engine(
    order: Order, job: Callable[..., Awaitable[None]]
) -> AsyncIterator[Headway]:
    """Open an engine with one job. Its lane has capacity, and is paused until `resume`."""
    await upgrade_database([order.url])
    durability = cast("Durability | None", order.durability or None)
    headway = Headway(order.url, durability=durability, stop_wait_s=0.0)
    headway.job(name="job")(job)
    async with headway:
        if order.role != "second":
            await headway.lanes.set(
                MAIN_LANE, max_concurrent=order.concurrent_count, is_paused=True
            )
        yield headway


async def submit_many(
    headway: Headway, count: int, *, key_of: Callable[[int], str | None] = lambda _: None
) -> None:
    """Submit in order. The submissions of a batch are sent concurrently."""
    for first in range(0, count, SUBMITTER_COUNT):
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(count, first + SUBMITTER_COUNT)):
                submission = headway.submit(
                    "job",
                    key=key_of(number),
                    params={"number": number},
                    on_conflict="enqueue",
                )
                group.create_task(submission)


async def resume(headway: Headway) -> None:
    await headway.lanes.set(MAIN_LANE, is_paused=False)


async def until_all_ended(headway: Headway) -> None:
    """Wait until the database confirms it."""
    while await _active_count(headway):  # noqa: ASYNC110 - There is no event for an empty lane.
        await asyncio.sleep(LOOK_S)


async def _active_count(headway: Headway) -> int:
    return sum(view.held_count + view.queued_count for view in await headway.lanes.list())
