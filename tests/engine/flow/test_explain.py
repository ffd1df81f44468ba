"""`explain` of a task names a missing service and the event that its node waits for."""

import asyncio
from typing import Any

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.read.read_flows import SqlFlowReader
from headway.core.ids import RunId
from headway.core.run.explain import Explanation, Gate
from headway.ports.flow_reader import FlowTask
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.engine.flow.scenes import a_flow, wait_until, wait_until_parked

pytestmark = pytest.mark.backend("sqlite")

APPROVAL = {"kind": "approval", "params": {"approval_key": "$shared.ok"}}
RETRIES = {"max_retries": 9, "wait_ms": 3_600_000}


async def park_and_explain(
    hw: Headway, node: dict[str, Any], **params: Any
) -> tuple[str, Explanation]:
    """Start a task with one node. Return its id and explanation once it is parked."""
    policy = {"error_policy": "follow_default"}  # Otherwise the task waits for a missing worker.
    await hw.flows.publish("f", a_flow({"n": node}) | policy)
    run = await hw.flows.start("f", params=params)
    await wait_until_parked(hw, run.id)
    return run.id, await hw.explain(run.id)


@pytest.mark.proves("R5.8")
async def test_explain_names_a_service_that_no_worker_offers(url: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw:
        _, explanation = await park_and_explain(
            hw, {"kind": "executor", "service": "paint", **RETRIES}
        )
        assert explanation.gate is Gate.NO_WORKER
        assert explanation.sentence == (
            "Its node 'n' needs the service 'paint', which no live worker offers."
            " It is retried (1 of 9 retries so far)."
        )
        assert explanation.remedy == (
            "Start a worker that offers 'paint': `headway worker <module:name>`."
        )
        assert explanation.until is not None
        fan = {"kind": "parallel", "parallel_services": ["paint", "sum", "wash"], **RETRIES}
        await hw.workers.register("w", "http://127.0.0.1:9", ["sum"])
        _, explanation = await park_and_explain(hw, fan | {"parallel_mode": "concurrent"})
        assert explanation.sentence.startswith(
            "Its node 'n' needs the services 'paint', 'wash', which"
        )


@pytest.mark.proves("R5.8")
async def test_explain_does_not_report_a_busy_service_as_missing(url: str) -> None:
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
        explanation = await hw.explain(run.id)
        assert explanation.gate is Gate.RUNNING
        assert explanation.sentence.startswith(
            "Its node 'n' is executing. It is running on instance "
        )


@pytest.mark.proves("R5.11")
async def test_explain_names_the_key_of_an_approval_or_event(url: str) -> None:
    async with Headway(url) as hw:
        task_id, explanation = await park_and_explain(hw, APPROVAL)
        assert explanation.gate is Gate.INBOX
        assert explanation.sentence == (
            "Its node 'n' waits for an approval, in 'ok' of the shared state."
        )
        assert explanation.remedy == f"headway task approve {task_id}"
        event = {"kind": "wait_event", "params": {"signal_key": "$shared.go", "timeout_ms": 10**7}}
        inner = {"kind": "subflow", "subflow": a_flow({"x": event})}
        task_id, explanation = await park_and_explain(hw, inner)
        assert (
            explanation.sentence
            == "Its node 'n/x' waits for an event, in 'go' of the shared state."
        )
        assert explanation.remedy == f"headway task signal {task_id} go <value>"
        assert explanation.until is not None, "it has a timeout"
        within = {"kind": "approval", "params": {"approval_key": "$shared.review.ok"}}
        task_id, explanation = await park_and_explain(hw, within)
        assert explanation.sentence == (
            "Its node 'n' waits for an approval, in '$shared.review.ok', which is within 'review'."
        )
        assert explanation.remedy == (
            f"headway task signal {task_id} review <value>, with the complete value of 'review'."
        )
        never = {"kind": "wait_event", "params": {"signal_key": "$params.go"}}
        _, explanation = await park_and_explain(hw, never)
        assert explanation.sentence == "Its node 'n' waits for an event that no signal can set."


@pytest.mark.proves("R5.3")
async def test_explain_gives_the_time_of_a_timer(url: str) -> None:
    async with Headway(url) as hw:
        task_id, explanation = await park_and_explain(
            hw, {"kind": "timer", "params": {"delay_ms": 3_600_000}}
        )
        assert explanation.gate is Gate.NOT_DUE
        assert explanation.sentence == "Its node 'n' is a timer that has not elapsed."
        assert explanation.until == (await hw.run(task_id).record()).run.wake_at


@pytest.mark.proves("R5.3")
async def test_explain_names_the_child_flow_of_a_waiting_task(url: str) -> None:
    async with Headway(url) as hw:
        await hw.flows.publish("inner", a_flow({"ask": APPROVAL}))
        await hw.flows.publish("outer", a_flow({"ref": {"kind": "flow_ref", "flow": "inner"}}))
        run = await hw.flows.start("outer")
        await wait_until(hw, run.id, lambda view: view.waits_for == "child")
        explanation = await hw.explain(run.id)
        assert explanation.sentence == "Its node 'ref' waits for tasks of flow 'inner'."


async def test_ended_and_queued_tasks_are_explained_like_runs(url: str) -> None:
    async with Headway(url) as hw:
        await hw.flows.publish("f", a_flow({"a": {"kind": "timer"}}))
        run = await hw.flows.start("f")
        await run.wait_for_end()
        assert (await hw.explain(run.id)).sentence == (
            "The run has ended: failed (node 'a' failed: no delay_ms)."
        )
        await hw.lanes.set("flow", max_concurrent=0)
        queued = await hw.flows.start("f")
        assert (await hw.explain(queued.id)).gate is Gate.LANE_LIMIT_ZERO


@pytest.mark.proves("R5.5")
async def test_an_engine_drives_tasks_of_a_flow_published_by_another_process(url: str) -> None:
    """The engine found no flow when it started."""
    async with Headway(url) as hw:
        other = Headway(url)
        async with other.without_engine():
            await other.flows.publish("f", a_flow({"t": {"kind": "choice"}}))
            run = await other.flows.start("f")
        assert await hw.run(run.id).result(30) == {}


@pytest.mark.proves("R1.12")
async def test_explain_reads_the_flow_tables_only_for_tasks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw, read_ids, read_task = Headway(url), list[RunId](), SqlFlowReader.task

    async def read_noted(reader: SqlFlowReader, run_id: RunId) -> FlowTask | None:
        read_ids.append(run_id)
        return await read_task(reader, run_id)

    @hw.job()
    async def work(ctx: RunContext) -> None: ...

    async with hw:
        await hw.flows.publish("f", a_flow({"n": APPROVAL}))
        run, task = await hw.start("work"), await hw.flows.start("f")
        monkeypatch.setattr(SqlFlowReader, "task", read_noted)
        await hw.explain(run.id)
        assert read_ids == []
        await hw.explain(task.id)
        assert read_ids == [task.id]
