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
WAKING_COUNT_PER_S: Final = 167
"""As when a hundred thousand wake within ten minutes."""
STARTED_COUNT_PER_S: Final = 300
"""So many at least can be started before the first wakes."""


async def park(order: Order) -> Answer:
    """`reference_s` is the time of the same flows without any; `times_ms` are latenesses."""
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
    """So many more, of each kind as many."""
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
        """The commit before the timer counts as lateness too: it is a small part."""
        passed_ms = (time.time() - given["begun_at_s"]) * 1_000
        self.late_ms.append(passed_ms - given["delay_ms"])


async def _wake(headway: Headway, wakes: Wakes, spread_s: float) -> list[float]:
    """How late tasks go on whose timers end one after another; all are parked before."""
    count = round(spread_s * WAKING_COUNT_PER_S)

    def delay(number: int) -> dict[str, Any]:
        """Whoever starts later sleeps less long: they are woken one after another."""
        due_s = began_s + WAKE_BEGINS_S + count / STARTED_COUNT_PER_S + number / WAKING_COUNT_PER_S
        return {"delay_ms": max(2_000, round((due_s - time.monotonic()) * 1_000))}

    began_s = time.monotonic()
    await start_many(headway, count, flow="sleeper", params_of=delay)
    while len(wakes.late_ms) < count:  # noqa: ASYNC110 - They come one by one.
        await asyncio.sleep(LOOK_S)
    return wakes.late_ms
