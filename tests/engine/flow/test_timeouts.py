"""Timeouts of nodes are always enforced and end the children of the node (R5.10)."""

import asyncio
from typing import Any

import pytest

from headway import Headway, RunStatus
from headway.core.command.run.child import PARENT_ENDED
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until

RESTS = a_flow({"rest": {"kind": "timer", "params": {"delay_ms": 3_600_000}}})
LATE = {"timeout_ms": 1_500, "on_error": {"timeout": "late"}}
CHILD = {"kind": "flow_ref", "flow": "rests"}
LIST = {"prep": {"input_key": "$params.list"}, "parallel_mode": "concurrent"}
LIMITED: dict[str, dict[str, Any]] = {
    "flow_ref": CHILD | LATE,
    "foreach": {
        "kind": "foreach",
        "flow": "rests",
        **LIST,
        **LATE,
        "failure_strategy": "fail_fast",
    },
    "subflow": {"kind": "subflow", "subflow": a_flow({"ref": CHILD}), **LATE},
}


@pytest.mark.proves("R5.10")
@pytest.mark.parametrize("kind", LIMITED)
async def test_a_timeout_cancels_the_children_of_a_parked_parent(
    database_url: str, kind: str
) -> None:
    """The cancel happens at once, not only when the parent ends (I11)."""
    nodes = {"wait": LIMITED[kind], "then": {"kind": "wait_event", "params": {"signal_key": "go"}}}
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.flows.publish("rests", RESTS)
        await hw.flows.publish("limits", a_flow(nodes, ("wait", "late", "then")))
        run = await hw.flows.start("limits", params={"list": [1, 2]})
        view = await wait_until(hw, run.id, lambda view: view.node == "then")
        assert view.run.is_active
        children = await hw.flows.tasks(flow="rests")
        assert len(children) == (2 if kind == "foreach" else 1)
        for child in children:
            assert child.run.parent_id == run.id
            record = await hw.run(child.id).wait_for_end()
            assert record.run.status is RunStatus.CANCELED
            assert record.cancel is not None
            assert PARENT_ENDED in record.cancel
        assert (await hw.flows.task(run.id)).run.is_active


@pytest.mark.proves("R5.10")
async def test_the_timeout_of_a_subflow_ends_an_endless_loop_of_nodes(
    database_url: str,
) -> None:
    hw = Headway(database_url, stop_wait_s=0)
    count = 0

    @hw.flows.function
    async def quick(_: object) -> int:
        nonlocal count
        count += 1
        return count

    endless_loop = a_flow({"a": local("quick"), "b": local("quick")}, ("a", "b"), ("b", "a"))
    limited = {"kind": "subflow", "subflow": endless_loop, "timeout_ms": 300}
    flow = a_flow({"sub": limited | {"on_error": {"timeout": "late"}}, "end": local("quick")})
    flow["edges"] = [{"from": "sub", "action": "late", "to": "end"}]
    async with hw:
        await hw.flows.publish("rounds", flow)
        run = await hw.flows.start("rounds")
        assert set(await run.result(30)) == {"quick"}
        rows = summarize(await hw.flows.node_runs(run.id, limit=1_000_000))
        assert rows[-2:] == ["sub error", "end[0] ok"]
        assert rows[:2] == ["sub/a[0] ok", "sub/b[0] ok"]


@pytest.mark.proves("R5.10")
async def test_a_branch_that_hangs_is_abandoned_while_others_end(database_url: str) -> None:
    hw = Headway(database_url, stop_wait_s=0)
    is_abandoned = asyncio.Event()
    after_count = 0

    @hw.flows.function
    async def work(item: int) -> int:
        nonlocal after_count
        if item == 0:
            try:
                await asyncio.Event().wait()
            finally:
                is_abandoned.set()
        await asyncio.sleep(0.01)  # Together the items take longer than the timeout on any machine.
        after_count += is_abandoned.is_set()
        return item

    fan = {"kind": "foreach", "function": "work", **LIST, "max_parallel": 50, "timeout_ms": 300}
    fan |= {"failure_strategy": "collect_errors", "post": {"output_key": "each"}}
    async with hw:
        await hw.flows.publish("busy", a_flow({"fan": fan}))
        run = await hw.flows.start("busy", params={"list": list(range(2_000))})
        result = await run.result(60)
        assert result["each"]["errors"]["0"] == "timeout"
        assert after_count > 0  # It was abandoned before the end of the others.
