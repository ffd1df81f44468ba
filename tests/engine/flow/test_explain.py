"""`explain` of a task: which service nobody offers, and what its node waits for."""

import asyncio
from typing import Any

import pytest

from headway import Headway
from headway.core.run.explain import Explanation, Gate
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.engine.flow.scenes import a_flow, parked, until

pytestmark = pytest.mark.backend("sqlite")

APPROVAL = {"kind": "approval", "params": {"approval_key": "$shared.ok"}}
AGAIN = {"max_retries": 9, "wait_ms": 3_600_000}


async def explained(hw: Headway, node: dict[str, Any], **params: Any) -> tuple[str, Explanation]:
    """The id of a task that has parked at its only node, and why it does not move."""
    policy = {"error_policy": "follow_default"}  # Else a missing worker is waited for.
    await hw.flows.publish("f", a_flow({"n": node}) | policy)
    run = await hw.flows.start("f", params=params)
    await parked(hw, run.id)
    return run.id, await hw.explain(run.id)


@pytest.mark.proves("R5.8")
async def test_a_service_that_nobody_offers_is_named(url: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw:
        _, found = await explained(hw, {"kind": "executor", "service": "paint", **AGAIN})
        assert found.gate is Gate.NO_WORKER
        assert found.sentence == (
            "Its node 'n' needs the service 'paint', which no live worker offers."
            " It is tried again (1 of 9 times so far)."
        )
        assert found.remedy == "A worker that offers 'paint': `headway worker <module:name>`."
        assert found.until is not None
        fan = {"kind": "parallel", "parallel_services": ["paint", "sum", "wash"], **AGAIN}
        await hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
        _, found = await explained(hw, fan | {"parallel_mode": "concurrent"})
        assert found.sentence.startswith("Its node 'n' needs the services 'paint', 'wash', which")


@pytest.mark.proves("R5.8")
async def test_a_service_that_is_at_work_is_not_called_missing(url: str) -> None:
    services, begun = Services(), asyncio.Event()

    @services
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    address = "http://127.0.0.1:8080"
    async with (
        Headway(url, stop_wait_s=0) as hw,
        Worker(services, url=address, registry_url="http://127.0.0.1:1", drain_s=0) as worker,
    ):
        await hw.workers.register(worker.id, worker.url, services.names)
        await hw.flows.publish("f", a_flow({"n": {"kind": "executor", "service": "hang"}}))
        run = await hw.flows.start("f")
        await begun.wait()
        found = await hw.explain(run.id)
        assert found.gate is Gate.RUNNING
        assert found.sentence.startswith("Its node 'n' is at work. It runs on instance ")


@pytest.mark.proves("R5.11")
async def test_what_an_approval_and_an_event_wait_for_is_named(url: str) -> None:
    async with Headway(url) as hw:
        task_id, found = await explained(hw, APPROVAL)
        assert found.gate is Gate.INBOX
        assert found.sentence == (
            "Its node 'n' waits for an approval, in 'ok' of the shared state."
        )
        assert found.remedy == f"headway task approve {task_id}"
        event = {"kind": "wait_event", "params": {"signal_key": "$shared.go", "timeout_ms": 10**7}}
        inner = {"kind": "subflow", "subflow": a_flow({"x": event})}
        task_id, found = await explained(hw, inner)
        assert found.sentence == "Its node 'n/x' waits for an event, in 'go' of the shared state."
        assert found.remedy == f"headway task signal {task_id} go <value>"
        assert found.until is not None, "it has a timeout"
        within = {"kind": "approval", "params": {"approval_key": "$shared.review.ok"}}
        task_id, found = await explained(hw, within)
        assert found.sentence == (
            "Its node 'n' waits for an approval, in '$shared.review.ok', which is within 'review'."
        )
        assert found.remedy == (
            f"headway task signal {task_id} review <value>, with all that 'review' is to hold."
        )
        never = {"kind": "wait_event", "params": {"signal_key": "$params.go"}}
        _, found = await explained(hw, never)
        assert found.sentence == "Its node 'n' waits for an event that no signal can bring."


@pytest.mark.proves("R5.3")
async def test_a_timer_says_that_it_is_one_and_when_it_rings(url: str) -> None:
    async with Headway(url) as hw:
        task_id, found = await explained(hw, {"kind": "timer", "params": {"delay_ms": 3_600_000}})
        assert found.gate is Gate.NOT_DUE
        assert found.sentence == "Its node 'n' is a timer, whose time has not come."
        assert found.until == (await hw.run(task_id).record()).run.wake_at


@pytest.mark.proves("R5.3")
async def test_a_task_that_waits_for_another_flow_names_it(url: str) -> None:
    async with Headway(url) as hw:
        await hw.flows.publish("inner", a_flow({"ask": APPROVAL}))
        await hw.flows.publish("outer", a_flow({"ref": {"kind": "flow_ref", "flow": "inner"}}))
        run = await hw.flows.start("outer")
        await until(hw, run.id, lambda view: view.waits_for == "child")
        found = await hw.explain(run.id)
        assert found.sentence == "Its node 'ref' waits for tasks of flow 'inner'."


async def test_what_is_over_or_queued_is_explained_as_any_run(url: str) -> None:
    async with Headway(url) as hw:
        await hw.flows.publish("f", a_flow({"a": {"kind": "timer"}}))
        run = await hw.flows.start("f")
        await run.wait_for_end()
        assert (await hw.explain(run.id)).sentence == (
            "The run is over: failed (node 'a' failed: no delay_ms)."
        )
        await hw.lanes.set("flow", max_concurrent=0)
        queued = await hw.flows.start("f")
        assert (await hw.explain(queued.id)).gate is Gate.LANE_LIMIT_ZERO


@pytest.mark.proves("R5.5")
async def test_the_first_flow_may_come_from_another_process(url: str) -> None:
    """A program that found no flow when it began drives the tasks of one that came later."""
    async with Headway(url) as hw:
        other = Headway(url)
        async with other.without_engine():
            await other.flows.publish("f", a_flow({"t": {"kind": "choice"}}))
            run = await other.flows.start("f")
        assert await hw.run(run.id).result(30) == {}
