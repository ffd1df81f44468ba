"""A task whose service no live worker offers waits for one, up to a limit (R5.14)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway import Headway
from headway.core.ids import SECOND_US
from headway.core.run.explain import Gate
from headway.core.run.status import RunStatus
from headway.core.worker.worker_protocol import DRAINING
from headway.services.flow.task_view import TaskView
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.engine.flow.raw_worker import CALL_ID, WorkerRequest, encode_response, raw_worker
from tests.engine.flow.scenes import a_flow, local, summarize, wait_until

CREDIT: dict[str, Any] = {
    "kind": "executor",
    "service": "credit",
    "post": {"output_key": "credit"},
}
SHIPPING = a_flow({"credit": CREDIT, "ship": local("ship")}, ("credit", "ship"))


def a_shop(database_url: str) -> tuple[Headway, list[str]]:
    hw, shipped = Headway(database_url, stop_wait_s=0), list[str]()

    @hw.flows.function
    async def ship(_: object) -> str:
        shipped.append("shipped")
        return "shipped"

    return hw, shipped


@asynccontextmanager
async def a_worker(hw: Headway, *names: str) -> AsyncIterator[Worker]:
    services = Services()
    for name in names:
        services(_answer, name=name)
    address = "http://127.0.0.1:8080"
    async with Worker(
        services, url=address, registry_url="http://127.0.0.1:1", drain_s=0
    ) as worker:
        await hw.workers.register(worker.id, worker.url, services.names)
        yield worker


async def _answer() -> str:
    return "good"


async def wait_until_waiting(hw: Headway, task_id: str) -> TaskView:
    return await wait_until(
        hw, task_id, lambda view: view.run.is_parked and view.waits_for == "worker"
    )


@pytest.mark.proves("R5.14")
async def test_a_task_without_a_worker_is_parked_and_resumes_when_one_registers(
    database_url: str,
) -> None:
    hw, shipped = a_shop(database_url)
    async with hw:
        await hw.flows.publish("order", SHIPPING)
        task = await hw.flows.start("order")
        view = await wait_until_waiting(hw, task.id)
        assert (view.run.slot, view.run.instance_id, view.step_count) == (None, None, 0)
        assert shipped == []
        explanation = await hw.explain(task.id)
        assert explanation.gate is Gate.NO_WORKER
        assert explanation.sentence == "Its node 'credit' waits for a worker that offers 'credit'."
        assert explanation.since is not None
        assert explanation.until == explanation.since + 300 * SECOND_US
        assert view.awaited_worker is not None
        assert view.awaited_worker.services == ("credit",)
        async with a_worker(hw, "credit"):
            assert await task.result(30) == {"credit": "good", "ship": "shipped"}
        view = await hw.flows.task(task.id)
        assert (view.awaited_worker, view.run.generation) == (None, 2), "it was claimed once more"
        assert summarize(await hw.flows.node_runs(task.id)) == ["credit[0] ok", "ship[0] ok"]


@pytest.mark.proves("R5.14")
async def test_a_task_fails_when_the_wait_for_a_worker_ends_and_names_the_node(
    database_url: str,
) -> None:
    hw, shipped = a_shop(database_url)
    async with hw:
        await hw.flows.publish("order", SHIPPING | {"worker_wait_ms": 1_000})
        task = await hw.flows.start("order")
        await task.wait_for_end()
        view = await hw.flows.task(task.id)
        assert (view.status, shipped) == (RunStatus.FAILED, [])
        assert view.error == {
            "code": "flow_failed",
            "message": "node 'credit' failed: no worker: none offered 'credit' within 1 s",
            "node": "credit",
        }


@pytest.mark.proves("R5.14")
async def test_the_wait_for_a_worker_does_not_start_again_after_a_restart(
    database_url: str,
) -> None:
    first, _ = a_shop(database_url)
    async with first:
        await first.flows.publish("order", SHIPPING | {"worker_wait_ms": 3_000})
        task = await first.flows.start("order")
        before = await wait_until_waiting(first, task.id)
    second, shipped = a_shop(database_url)
    async with second:
        # A signal wakes the task. The next driver must find the stored start of its wait.
        await second.flows.signal(task.id, "note", 1)
        after = await wait_until(second, task.id, lambda view: view.run.generation > 1)
        if after.run.is_active:
            assert after.awaited_worker == before.awaited_worker
        assert before.awaited_worker is not None
        record = await second.run(task.id).wait_for_end()
        assert record.run.status is RunStatus.FAILED
        (row,) = await second.flows.node_runs(task.id)
        assert row.started_at == before.awaited_worker.since
        assert shipped == []


@pytest.mark.proves("R5.14")
async def test_a_task_that_waits_for_a_worker_resumes_after_a_restart(database_url: str) -> None:
    first, _ = a_shop(database_url)
    async with first:
        await first.flows.publish("order", SHIPPING)
        task = await first.flows.start("order")
        await wait_until_waiting(first, task.id)
    second, shipped = a_shop(database_url)
    async with second, a_worker(second, "credit"):
        assert await second.run(task.id).result(30) == {"credit": "good", "ship": "shipped"}
        assert shipped == ["shipped"]


@pytest.mark.proves("R5.14")
async def test_a_task_can_be_canceled_while_it_waits_for_a_worker(database_url: str) -> None:
    hw, shipped = a_shop(database_url)
    async with hw:
        await hw.flows.publish("order", SHIPPING)
        task = await hw.flows.start("order")
        await wait_until_waiting(hw, task.id)
        await task.cancel()
        record = await task.wait_for_end()
        async with a_worker(hw, "credit"):
            assert (record.run.status, shipped) == (RunStatus.CANCELED, [])


@pytest.mark.proves("R5.14")
async def test_a_worker_for_another_service_wakes_no_task(database_url: str) -> None:
    hw, _ = a_shop(database_url)
    async with hw:
        await hw.flows.publish("order", SHIPPING)
        task = await hw.flows.start("order")
        before = await wait_until_waiting(hw, task.id)
        await hw.workers.register("other", "http://127.0.0.1:9", ["sum"])
        await hw._opened.flows.refresh()
        assert (await hw.flows.task(task.id)).run.revision == before.run.revision


@pytest.mark.proves("R5.14")
@pytest.mark.backend("sqlite")
async def test_a_task_waits_for_a_registered_worker_that_is_unreachable(
    database_url: str,
) -> None:
    hw, shipped = a_shop(database_url)
    async with hw:
        await hw.workers.register("gone", "http://127.0.0.1:9", ["credit"])
        await hw.flows.publish("order", SHIPPING)
        task = await hw.flows.start("order")
        await wait_until_waiting(hw, task.id)
        explanation = await hw.explain(task.id)
        assert "cannot be reached" in explanation.sentence
        async with a_worker(hw, "credit"):
            assert await task.result(30) == {"credit": "good", "ship": "shipped"}
        assert shipped == ["shipped"]


@pytest.mark.proves("R5.14")
@pytest.mark.backend("sqlite")
async def test_a_waiting_branch_is_called_when_its_worker_registers_during_another_call(
    database_url: str,
) -> None:
    hw, _ = a_shop(database_url)
    begun, may_end = asyncio.Event(), asyncio.Event()
    fan: dict[str, Any] = {"kind": "parallel", "parallel_services": ["slow", "credit"]}
    fan |= {"parallel_mode": "concurrent", "post": {"output_key": "both"}}
    services = Services()

    @services
    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return "slow"

    address = "http://127.0.0.1:8080"
    async with (
        hw,
        Worker(services, url=address, registry_url="http://127.0.0.1:1", drain_s=0) as worker,
    ):
        await hw.workers.register(worker.id, worker.url, services.names)
        await hw.flows.publish("both", a_flow({"fan": fan}))
        task = await hw.flows.start("both")
        await begun.wait()
        async with a_worker(hw, "credit"):
            await wait_until(hw, task.id, lambda view: view.step_count == 1)
            may_end.set()
            assert await task.result(30) == {"both": ["slow", "good"]}


@pytest.mark.backend("sqlite")
async def test_a_flow_that_follows_its_default_edge_does_not_wait_for_a_worker(
    database_url: str,
) -> None:
    hw, shipped = a_shop(database_url)
    async with hw:
        await hw.flows.publish("order", SHIPPING | {"error_policy": "follow_default"})
        task = await hw.flows.start("order")
        assert await task.result(30) == {"ship": "shipped"}
        assert shipped == ["shipped"]
        (first, _) = await hw.flows.node_runs(task.id)
        assert (first.error, first.action) == ("no worker", "error")


@pytest.mark.proves("R5.14")
@pytest.mark.backend("sqlite")
async def test_a_fail_node_fails_the_task_with_its_own_code(database_url: str) -> None:
    refuse = {"kind": "fail", "params": {"message": "$params.why", "code": "out_of_stock"}}
    async with Headway(database_url, stop_wait_s=0) as hw:
        await hw.flows.publish("order", a_flow({"refuse": refuse}))
        task = await hw.flows.start("order", params={"why": "no tea"})
        await task.wait_for_end()
        view = await hw.flows.task(task.id)
        assert view.error == {"code": "out_of_stock", "message": "no tea", "node": "refuse"}


@pytest.mark.proves("R5.14")
@pytest.mark.backend("sqlite")
async def test_a_task_can_be_read_while_a_draining_worker_ends_its_last_call(
    database_url: str,
) -> None:
    hw, _ = a_shop(database_url)
    last_may_end = asyncio.Event()
    each: dict[str, Any] = {"kind": "foreach", "service": "credit", "post": {"output_key": "out"}}
    each |= {"parallel_mode": "concurrent", "max_parallel": 2}
    each |= {"prep": {"input_key": "$params.list"}}

    async def serve(
        request: WorkerRequest, _: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if request.body["input"] == 2:
            await last_may_end.wait()
        is_draining = request.body["input"] == 3
        body = {"error": DRAINING} if is_draining else {"result": request.body["input"]}
        response = encode_response(body, **{CALL_ID: request.headers[CALL_ID]})
        writer.write(response.replace(b" 200 OK", b" 503 Draining") if is_draining else response)

    async with hw, raw_worker(serve) as address:
        await hw.workers.register("w", address, ["credit"])
        await hw.flows.publish("each", a_flow({"each": each}))
        task = await hw.flows.start("each", params={"list": [1, 2, 3]})
        await wait_until(hw, task.id, lambda view: view.awaited_worker is not None)
        last_may_end.set()
        view = await wait_until(hw, task.id, lambda view: view.step_count == 2)
        assert view.awaited_worker is not None
        assert view.awaited_worker.services == ("credit",)
        assert "cannot be reached" in (await hw.explain(task.id)).sentence
        await task.cancel()
