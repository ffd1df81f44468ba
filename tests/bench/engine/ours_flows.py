"""headway's part in the races of flows: steps of functions, of workers, and of child tasks."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from headway import Headway
from headway.bootstrap import Durability, upgrade_database
from headway.core.ids import FLOW_LANE
from tests.bench.engine.contestants import OF_CHILDREN, OF_WORKERS
from tests.bench.engine.order import STEP_COUNT, Answer, Order
from tests.bench.stopwatch import Stopwatch

STARTER_COUNT: Final = 500
WARM_COUNT: Final = 10
FLOW: Final = "bench"
HEARTBEAT_S: Final = 5.0
LOOK_S: Final = 0.05
"""Each poll costs as much as several steps."""
ADD_ONE: Final = "add_one"

Definition = dict[str, Any]


def in_a_row(node: Definition, count: int = STEP_COUNT) -> Definition:
    """Return a flow of `count` such nodes. Each reads the output of the one before."""
    kept = {"prep": {"input_key": "count"}, "post": {"output_key": "count"}}
    return {
        "start": "n0",
        "nodes": {f"n{number}": {**node, **kept} for number in range(count)},
        "edges": [
            {"from": f"n{number}", "action": "default", "to": f"n{number + 1}"}
            for number in range(count - 1)
        ],
    }


LOCAL: Final = in_a_row({"kind": "local", "function": ADD_ONE})
REMOTE: Final = in_a_row({"kind": "executor", "service": ADD_ONE})
CHILD: Final = {
    "start": "only",
    "nodes": {
        "only": {
            "kind": "local",
            "function": ADD_ONE,
            "prep": {"input_key": "$params.input"},
            "post": {"output_key": "count"},
        }
    },
    "edges": [],
}
PARENT: Final = {
    "start": "list",
    "nodes": {
        "list": {
            "kind": "local",
            "function": "numbers",
            "prep": {"input_key": "$params.count"},
            "post": {"output_key": "numbers"},
        },
        "each": {
            "kind": "foreach",
            "flow": "child",
            "parallel_mode": "concurrent",
            "prep": {"input_key": "numbers"},
            "post": {"output_key": "all"},
        },
    },
    "edges": [{"from": "list", "action": "default", "to": "each"}],
}


class Steps:
    """Counts the calls of a function that does nothing."""

    def __init__(self) -> None:
        self.count = 0
        self._awaited: dict[int, asyncio.Event] = {}

    async def add_one(self, given: int | None) -> int:
        self.count += 1
        awaited = self._awaited.pop(self.count, None)
        if awaited is not None:
            awaited.set()
        return (given or 0) + 1

    def reach(self, more: int) -> asyncio.Event:
        """Return an event that is set after so many more calls."""
        return self._awaited.setdefault(self.count + more, asyncio.Event())


@asynccontextmanager
async def opened_flows(order: Order) -> AsyncIterator[tuple[Headway, Steps]]:
    """Open an engine whose flows have capacity, with a function that adds one."""
    await upgrade_database([order.url])
    durability = cast("Durability | None", order.durability or None)
    headway = Headway(order.url, durability=durability, stop_wait_s=0.0)
    steps = Steps()
    headway.flows.function(name=ADD_ONE)(steps.add_one)
    async with headway:
        await headway.lanes.set(FLOW_LANE, max_concurrent=order.concurrent_count)
        yield headway, steps


async def start_many(
    headway: Headway,
    count: int,
    *,
    flow: str = FLOW,
    params_of: Callable[[int], Definition] = lambda _: {},
) -> None:
    """Start tasks of the flow, those of a batch concurrently."""
    for first in range(0, count, STARTER_COUNT):
        async with asyncio.TaskGroup() as group:
            for number in range(first, min(count, first + STARTER_COUNT)):
                group.create_task(headway.flows.start(flow, version=1, params=params_of(number)))


async def flows(order: Order) -> Answer:
    if order.variant == OF_WORKERS:
        return await _of_workers(order)
    if order.variant == OF_CHILDREN:
        return await _of_children(order)
    async with opened_flows(order) as (headway, steps):
        await headway.flows.publish(FLOW, LOCAL)
        return await walk(headway, order.job_count, steps.reach(order.job_count * STEP_COUNT))


async def walk(headway: Headway, task_count: int, last_step: asyncio.Event | None) -> Answer:
    """Measure the tasks. All of them are created before the clock starts."""
    await headway.lanes.set(FLOW_LANE, is_paused=True)
    await start_many(headway, task_count)
    watch = Stopwatch()
    with watch:
        await headway.lanes.set(FLOW_LANE, is_paused=False)
        if last_step is not None:
            await last_step.wait()
        await until_none_is_held(headway)
    return Answer(count=task_count * STEP_COUNT, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)


async def until_none_is_held(headway: Headway) -> None:
    """Wait until no task is queued or running: all have ended, or are parked."""
    while await _held_count(headway):  # noqa: ASYNC110 - There is no event for an empty lane.
        await asyncio.sleep(LOOK_S)


async def _held_count(headway: Headway) -> int:
    return sum(view.held_count + view.queued_count for view in await headway.lanes.list())


async def _of_workers(order: Order) -> Answer:
    async with opened_flows(order) as (headway, _), _worker(headway):
        await headway.flows.publish(FLOW, REMOTE)
        # Modules that are slow to import are imported by the first task.
        await walk(headway, WARM_COUNT, None)
        return await walk(headway, order.job_count, None)


@asynccontextmanager
async def _worker(headway: Headway) -> AsyncIterator[None]:
    """Start a worker in a process of its own, and report it as alive."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.engine.flow_worker"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    address = (await process.stdout.readline()).decode().strip()
    await headway.workers.register("worker", address, [ADD_ONE])

    async def live() -> None:
        while True:  # Until it is cancelled.
            await asyncio.sleep(HEARTBEAT_S)
            await headway.workers.record_heartbeat("worker", 0)

    living = asyncio.create_task(live())
    try:
        yield
    finally:
        living.cancel()
        process.kill()
        await process.wait()


async def _of_children(order: Order) -> Answer:
    async with opened_flows(order) as (headway, _):

        async def numbers(count: int) -> list[int]:
            return list(range(count))

        headway.flows.function(numbers)
        await headway.flows.publish("child", CHILD)
        await headway.flows.publish(FLOW, PARENT)
        watch = Stopwatch()
        with watch:
            task = await headway.flows.start(FLOW, params={"count": order.job_count})
            shared = await task.result()
        assert len(shared["all"]) == order.job_count
        return Answer(count=order.job_count, elapsed_s=watch.elapsed_s, cpu_s=watch.cpu_s)
