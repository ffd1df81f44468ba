"""headway's part in what parked tasks cost others, weigh, and how late they go on."""

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
"""Tasks of ten steps, whose rate is taken without and with parked ones."""
WALK_COUNT: Final = 3
FAR_MS: Final = 86_400_000
WAITS: Final[dict[str, dict[str, Any]]] = {
    "timer": {"kind": "timer", "params": {"delay_ms": FAR_MS}},
    "event": {"kind": "wait_event", "params": {"signal_key": "$shared.go"}},
    "approval": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
}
LOOK_S: Final = 0.1
WAKE_BEGINS_S: Final = 5.0
WAKING_COUNT_PER_S: Final = 50


async def park(order: Order) -> Answer:
    """`reference_s` is the time of the same flows without any; `times_ms` are latenesses."""
    wakes = Wakes()
    async with opened_flows(order) as (headway, steps):
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
    """So many more, of each kind as many."""
    for number, kind in enumerate(WAITS):
        share = len(range(number, count, len(WAITS)))
        await start_many(headway, share, flow=kind)
    await until_none_is_held(headway)


SLEEPER: Final = {
    "start": "sleep",
    "nodes": {
        "sleep": {"kind": "timer"},
        "wake": {"kind": "local", "function": "wake", "prep": {"input_key": "$params.due_s"}},
    },
    "edges": [{"from": "sleep", "action": "default", "to": "wake"}],
}


class Wakes:
    def __init__(self) -> None:
        self.late_ms: list[float] = []

    async def wake(self, due_s: float) -> None:
        self.late_ms.append((time.time() - due_s) * 1_000)


async def _wake(headway: Headway, wakes: Wakes, spread_s: float) -> list[float]:
    """How late tasks go on whose timers end one after another; all are parked before."""
    count = round(spread_s * WAKING_COUNT_PER_S)
    base_s = time.time() + WAKE_BEGINS_S + count / 500

    def due(number: int) -> dict[str, Any]:
        due_s = base_s + number / WAKING_COUNT_PER_S
        return {"due_s": due_s, "delay_ms": round((due_s - time.time()) * 1_000)}

    await start_many(headway, count, flow="sleeper", params_of=due)
    await asyncio.sleep(max(0.0, base_s + spread_s - time.time()))
    while len(wakes.late_ms) < count:  # noqa: ASYNC110 - They come one by one.
        await asyncio.sleep(LOOK_S)
    return wakes.late_ms
