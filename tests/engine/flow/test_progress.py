"""A worker tells how far it is, and whoever watches the task sees it (R5.7)."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from headway import Headway
from headway.core.errors import InvalidInput
from headway.core.run.events import EventType
from headway.core.worker.worker_protocol import PROGRESS_BYTE_COUNT_MAX
from headway.services.submit.run_handle import RunHandle
from headway.worker.program import Worker
from headway.worker.service_registry import Call, Services
from tests.engine.flow.scenes import a_flow

pytestmark = pytest.mark.backend("sqlite")


@asynccontextmanager
async def at_work(url: str, services: Services) -> AsyncIterator[tuple[Headway, Worker]]:
    address = "http://127.0.0.1:8080"
    worker = Worker(services, url=address, registry_url="http://127.0.0.1:1", drain_s=0)
    async with Headway(url, stop_wait_s=0) as hw, worker:
        await hw.workers.register(worker.id, worker.url, services.names)
        yield hw, worker


async def started(hw: Headway, **node: Any) -> RunHandle:
    await hw.flows.publish("f", a_flow({"n": node | {"post": {"output_key": "out"}}}))
    return await hw.flows.start("f", params={"list": [1, 2]})


async def figures(run: RunHandle) -> dict[str, Any]:
    """The next progress of the task that its events tell."""
    async for event in run.events():
        if event.type == EventType.PROGRESS:
            found: dict[str, Any] = json.loads(event.payload)
            return found
    raise AssertionError("it ended without a word")


@pytest.mark.proves("R5.7")
async def test_what_a_call_tells_is_the_progress_of_its_task(url: str) -> None:
    services, go = Services(), asyncio.Event()

    @services
    async def count(given: Any, params: Any, call: Call) -> str:
        call.progress(done=1, of=3, self="is only a name")
        await go.wait()
        return "counted"

    async with at_work(url, services) as (hw, _):
        run = await started(hw, kind="executor", service="count")
        told = await figures(run)
        assert told == {"node": "n", "done": 1, "of": 3, "self": "is only a name"}
        go.set()
        assert await run.result(20) == {"out": "counted"}


@pytest.mark.proves("R5.7")
async def test_a_thread_tells_it_too_and_a_branch_says_which_it_is(url: str) -> None:
    services, go = Services(), threading.Event()

    @services
    def count(given: int, params: Any, call: Call) -> int:
        if given == 2:
            call.progress(done=given)
            go.wait(20)
        return given

    async with at_work(url, services) as (hw, _):
        run = await started(
            hw,
            kind="foreach",
            service="count",
            prep={"input_key": "$params.list"},
            parallel_mode="concurrent",
        )
        assert await figures(run) == {"node": "n", "branch": 1, "done": 2}
        go.set()
        assert await run.result(20) == {"out": [1, 2]}


@pytest.mark.proves("R5.7")
async def test_what_comes_too_often_is_told_last_and_errors_still_come_through(
    url: str,
) -> None:
    services = Services()

    @services
    async def hurry(given: Any, params: Any, call: Call) -> None:
        with pytest.raises(InvalidInput, match=r"progress\.when"):
            call.progress(when=object())
        for done in range(1, 1_001):
            call.progress(done=done)
        raise ValueError("stumbled")

    async with at_work(url, services) as (hw, _):
        run = await started(hw, kind="executor", service="hurry")
        record = await run.wait_for_end()
        assert record.progress == '{"done":1000,"node":"n"}'
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error == "ValueError: stumbled"


@pytest.mark.proves("R5.7")
async def test_who_does_not_listen_gets_the_answer_alone(url: str) -> None:
    """Programs that speak the first centre's dialect know nothing of lines."""
    services = Services()

    @services
    async def count(given: Any, params: Any, call: Call) -> int:
        call.progress(done=1)
        return 7

    async with at_work(url, services) as (_, worker), aiohttp.ClientSession() as session:
        body: dict[str, Any] = {"input": None, "params": {}}
        async with session.post(f"{worker.url}/exec/count", json=body) as answer:
            assert answer.content_type == "application/json"
            assert await answer.json() == {"result": 7}


@pytest.mark.proves("R5.7")
async def test_the_largest_progress_that_a_call_may_tell_arrives(url: str) -> None:
    services, go = Services(), asyncio.Event()
    note = "x" * (PROGRESS_BYTE_COUNT_MAX - len('{"note":""}'))

    @services
    async def write(given: Any, params: Any, call: Call) -> str:
        with pytest.raises(InvalidInput, match="progress"):
            call.progress(note=note + "x")
        call.progress(note=note)
        await go.wait()
        return "written"

    async with at_work(url, services) as (hw, _):
        run = await started(hw, kind="executor", service="write")
        assert (await figures(run))["note"] == note
        go.set()
