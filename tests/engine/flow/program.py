"""A program that is killed at one of its commits, with a flow that has a node of each kind.

`python -m tests.engine.flow.program URL WORKER LEDGER WHEN NUMBER` starts a task, prints its id,
and kills itself before or after (WHEN) the commit with that number by the task or its children. If
there are fewer commits, it prints their count. WORKER is the address of a worker with
`services_with_effects`, which keeps running.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from headway import Headway
from headway.core.command.flow.advance import AdvanceFlow
from headway.core.command.flow.publish import StartFlowChild
from headway.services.flow.catalog import Definition
from headway.worker.service_registry import Services
from tests.engine.flow.scenes import a_flow, local
from tests.engine.worker import append

LEASE_TTL_S = 1.0
INNER: Definition = a_flow({"in": local("effect", "$params.input")})
EVERY_KIND: Definition = a_flow(
    {
        "first": local("effect", "$params.first"),
        "which": {
            "kind": "choice",
            "choice_cases": [{"action": "on", "expr": {"exists": "$shared.effect"}}],
        },
        "each": {
            "kind": "foreach",
            "function": "effect",
            "prep": {"input_key": "$params.list"},
            "post": {"output_key": "each"},
        },
        "sub": {
            "kind": "subflow",
            "subflow": a_flow(
                {"x": local("effect", "$params.x"), "y": local("effect", "$params.y")}, ("x", "y")
            ),
            "post": {"output_key": "sub"},
        },
        "rest": {"kind": "timer", "params": {"delay_ms": 1_100}},
        "event": {
            "kind": "wait_event",
            "params": {"signal_key": "$shared.go"},
            "post": {"output_key": "event"},
        },
        "ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
        "ref": {
            "kind": "flow_ref",
            "flow": "inner",
            "prep": {"input_key": "$params.ref"},
            "post": {"output_key": "ref"},
        },
        "fan": {
            "kind": "foreach",
            "flow": "inner",
            "prep": {"input_key": "$params.fan"},
            "post": {"output_key": "fan"},
            "parallel_mode": "concurrent",
        },
        "call": {
            "kind": "executor",
            "service": "one",
            "prep": {"input_key": "$params.call"},
            "post": {"output_key": "call"},
        },
        "both": {
            "kind": "parallel",
            "parallel_services": ["one", "two"],
            "prep": {"input_key": "$params.both"},
            "post": {"output_key": "both"},
            "parallel_mode": "concurrent",
        },
        "last": local("effect", "$params.last"),
    },
    ("first", "which"),
    ("which", "on", "each"),
    ("each", "sub"),
    ("sub", "rest"),
    ("rest", "event"),
    ("event", "ask"),
    ("ask", "approved", "ref"),
    ("ref", "fan"),
    ("fan", "call"),
    ("call", "both"),
    ("both", "last"),
)
PARAMS: dict[str, Any] = {
    "first": "first",
    "list": ["each-0", "each-1"],
    "x": "x",
    "y": "y",
    "ref": "ref",
    "fan": ["fan-0", "fan-1"],
    "call": "call",
    "both": "both",
    "last": "last",
}
BY_FUNCTIONS = ("first", "each-0", "each-1", "x", "y", "ref", "fan-0", "fan-1", "last")
BY_WORKERS = ("one:call", "one:both", "two:both")
EFFECTS = (*BY_FUNCTIONS, *BY_WORKERS)
SHARED: dict[str, Any] = {
    "go": 7,
    "ok": True,
    "effect": "last",
    "each": ["each-0", "each-1"],
    "sub": {"effect": "y"},
    "event": 7,
    "ref": {"effect": "ref"},
    "fan": [{"effect": "fan-0"}, {"effect": "fan-1"}],
    "call": "one:call",
    "both": ["one:both", "two:both"],
}
NODE_RUNS = [
    "first[0] ok",
    "which ok",
    "each[0] ok",
    "each[1] ok",
    "each ok",
    "sub/x[0] ok",
    "sub/y[0] ok",
    "rest ok",
    "event ok",
    "ask ok",
    "ref[0] ok",
    "fan[0] ok",
    "fan[1] ok",
    "fan ok",
    "call[0] ok",
    "both[0] ok",
    "both[1] ok",
    "both ok",
    "last[0] ok",
]


def headway_with_effects(url: str, ledger: str) -> Headway:
    hw = Headway(url, lease_ttl_s=LEASE_TTL_S)

    @hw.flows.function
    async def effect(name: str) -> str:
        append(ledger, name)
        return name

    return hw


def services_with_effects(ledger: str) -> Services:
    services = Services()

    def add(name: str) -> None:
        async def effect(item: str) -> str:
            append(ledger, f"{name}:{item}")
            return f"{name}:{item}"

        services(effect, name=name)

    for name in ("one", "two"):
        add(name)
    return services


def kill_at(hw: Headway, when: str, number: int) -> Callable[[], int]:
    """Count the commits of tasks, and kill the process at one of them."""
    apply: Callable[[Any], Any] = hw.store.apply
    count = 0

    async def counted(command: Any) -> Any:
        nonlocal count
        if not isinstance(command, AdvanceFlow | StartFlowChild):
            return await apply(command)
        count += 1
        if count == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await apply(command)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    hw.store.apply = counted  # type: ignore[method-assign]
    return lambda: count


async def main(url: str, worker: str, ledger: str, when: str, number: str) -> None:
    async with headway_with_effects(url, ledger) as hw:
        await hw.workers.register("w", worker, ["one", "two"])
        await hw.flows.publish("inner", INNER)
        await hw.flows.publish("outer", EVERY_KIND)
        await hw.lanes.set("flow", max_concurrent=0)
        run = await hw.flows.start("outer", params=PARAMS)
        await hw.flows.signal(run.id, "go", 7)
        await hw.flows.signal(run.id, "ok", True)
        print(run.id, flush=True)
        count = kill_at(hw, when, int(number))
        await hw.lanes.set("flow", max_concurrent=4)
        await run.result()
        print(count(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
