"""headway's part in the cost of parked tasks: for others, in memory, and how late they resume."""

import asyncio
import time
from typing import Any, Final

from headway import Headway
from tests.bench.engine.order import STEP_COUNT, Answer, Order
from tests.bench.engine.ours_at_rest import SETTLE_S, memory_bytes
from tests.bench.engine.ours_flows import (
    FLOW,
    LOCAL,
    Steps,
    opened_flows,
    start_many,
    until_none_is_held,
    walk,
)

WALKED_COUNT: Final = 300
"""Tasks of ten steps, whose rate is measured without and with parked ones."""
WALK_COUNT: Final = 3
FAR_MS: Final = 86_400_000
WAITS: Final[dict[str, dict[str, Any]]] = {
    "timer": {"kind": "timer", "params": {"delay_ms": FAR_MS}},
    "event": {"kind": "wait_event", "params": {"signal_key": "$shared.go"}},
    "approval": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
}
LOOK_S: Final = 0.1
WAKE_BEGINS_S: Final = 5.0
WAKING_COUNT_PER_S: Final = 167
"""The rate of a hundred thousand that wake within ten minutes."""
STARTED_COUNT_PER_S: Final = 300
"""The least number that can be started before the first one wakes."""


async def park(order: Order) -> Answer:
    """Measure parked tasks. `reference_s` is without any parked ones; `times_ms` are latenesses."""
    wakes = Wakes()
    async with opened_flows(order) as (headway, steps):
        headway.flows.function(name="begin")(wakes.begin)
        headway.flows.function(name="wake")(wakes.wake)
        await headway.flows.publish(FLOW, LOCAL)
        for name, node in WAITS.items():
            await headway.flows.publish(
                name, {"start": "wait", "nodes": {"wait": node}, "edges": []}
            )
        await headway.flows.publish("sleeper", SLEEPER)
        await walk(headway, WALKED_COUNT, None)  # The first one warms up.
        await asyncio.sleep(SETTLE_S)
        before_bytes = memory_bytes()
        alone = [await _walked(headway, steps) for _ in range(WALK_COUNT)]
        await _park(headway, order.job_count)
        beside = [await _walked(headway, steps) for _ in range(WALK_COUNT)]
        lateness = await _wake(headway, wakes, order.spread_s)
        await _park(headway, order.parked_count - order.job_count)
        await asyncio.sleep(SETTLE_S)
        weight = memory_bytes() - before_bytes
    return Answer(
        count=WALKED_COUNT * STEP_COUNT,
        elapsed_s=min(beside),
        reference_s=min(alone),
        memory_bytes=weight,
        times_ms=tuple(lateness),
    )


async def _walked(headway: Headway, steps: Steps) -> float:
    answer = await walk(headway, WALKED_COUNT, steps.reach(WALKED_COUNT * STEP_COUNT))
    return answer.elapsed_s


async def _park(headway: Headway, count: int) -> None:
    """Park so many more, the same number of each kind."""
    for number, kind in enumerate(WAITS):
        share = len(range(number, count, len(WAITS)))
        await start_many(headway, share, flow=kind)
    await until_none_is_held(headway)


SLEEPER: Final = {
    "start": "begin",
    "nodes": {
        "begin": {"kind": "local", "function": "begin", "post": {"output_key": "begun_at_s"}},
        "sleep": {"kind": "timer"},
        "wake": {
            "kind": "local",
            "function": "wake",
            "prep": {"input_map": {"begun_at_s": "begun_at_s", "delay_ms": "$params.delay_ms"}},
        },
    },
    "edges": [
        {"from": "begin", "action": "default", "to": "sleep"},
        {"from": "sleep", "action": "default", "to": "wake"},
    ],
}


class Wakes:
    def __init__(self) -> None:
        self.late_ms: list[float] = []

    async def begin(self) -> float:
        return time.time()

    async def wake(self, given: dict[str, float]) -> None:
        """Record the lateness. It includes the commit before the timer, which is a small part."""
        passed_ms = (time.time() - given["begun_at_s"]) * 1_000
        self.late_ms.append(passed_ms - given["delay_ms"])


async def _wake(headway: Headway, wakes: Wakes, spread_s: float) -> list[float]:
    """Measure how late tasks resume whose timers end one after another; all are parked before."""
    count = round(spread_s * WAKING_COUNT_PER_S)

    def delay(number: int) -> dict[str, Any]:
        """Tasks that start later sleep less, so that they are woken one after another."""
        due_s = began_s + WAKE_BEGINS_S + count / STARTED_COUNT_PER_S + number / WAKING_COUNT_PER_S
        return {"delay_ms": max(2_000, round((due_s - time.monotonic()) * 1_000))}

    began_s = time.monotonic()
    await start_many(headway, count, flow="sleeper", params_of=delay)
    while len(wakes.late_ms) < count:  # noqa: ASYNC110 - They come one by one.
        await asyncio.sleep(LOOK_S)
    return wakes.late_ms
