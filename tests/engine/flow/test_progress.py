"""A worker reports progress, and watchers of the task see it (R5.7)."""

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
async def open_worker(url: str, services: Services) -> AsyncIterator[tuple[Headway, Worker]]:
    address = "http://127.0.0.1:8080"
    worker = Worker(services, url=address, registry_url="http://127.0.0.1:1", drain_s=0)
    async with Headway(url, stop_wait_s=0) as hw, worker:
        await hw.workers.register(worker.id, worker.url, services.names)
        yield hw, worker


async def start_task(hw: Headway, **node: Any) -> RunHandle:
    await hw.flows.publish("f", a_flow({"n": node | {"post": {"output_key": "out"}}}))
    return await hw.flows.start("f", params={"list": [1, 2]})


async def read_progress(run: RunHandle) -> dict[str, Any]:
    """Wait for the first progress event of the task, and return its payload."""
    async for event in run.events():
        if event.type == EventType.PROGRESS:
            payload: dict[str, Any] = json.loads(event.payload)
            return payload
    raise AssertionError("the task ended without progress")


@pytest.mark.proves("R5.7")
async def test_progress_of_a_call_is_reported_as_progress_of_its_task(url: str) -> None:
    services, go = Services(), asyncio.Event()

    @services
    async def count(value: Any, params: Any, call: Call) -> str:
        call.progress(done=1, of=3, self="is only a name")
        await go.wait()
        return "counted"

    async with open_worker(url, services) as (hw, _):
        run = await start_task(hw, kind="executor", service="count")
        progress = await read_progress(run)
        assert progress == {"node": "n", "done": 1, "of": 3, "self": "is only a name"}
        go.set()
        assert await run.result(20) == {"out": "counted"}


@pytest.mark.proves("R5.7")
async def test_progress_from_a_thread_names_its_branch(url: str) -> None:
    services, go = Services(), threading.Event()

    @services
    def count(value: int, params: Any, call: Call) -> int:
        if value == 2:
            call.progress(done=value)
            go.wait(20)
        return value

    async with open_worker(url, services) as (hw, _):
        run = await start_task(
            hw,
            kind="foreach",
            service="count",
            prep={"input_key": "$params.list"},
            parallel_mode="concurrent",
        )
        assert await read_progress(run) == {"node": "n", "branch": 1, "done": 2}
        go.set()
        assert await run.result(20) == {"out": [1, 2]}


@pytest.mark.proves("R5.7")
async def test_last_progress_report_before_an_error_is_stored(
    url: str,
) -> None:
    services = Services()

    @services
    async def hurry(value: Any, params: Any, call: Call) -> None:
        with pytest.raises(InvalidInput, match=r"progress\.when"):
            call.progress(when=object())
        for done in range(1, 1_001):
            call.progress(done=done)
        raise ValueError("stumbled")

    async with open_worker(url, services) as (hw, _):
        run = await start_task(hw, kind="executor", service="hurry")
        record = await run.wait_for_end()
        assert record.progress == '{"done":1000,"node":"n"}'
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error == "ValueError: stumbled"


@pytest.mark.proves("R5.7")
async def test_a_client_that_does_not_accept_progress_gets_only_the_result(url: str) -> None:
    """Programs that use the first version of the protocol cannot parse progress lines."""
    services = Services()

    @services
    async def count(value: Any, params: Any, call: Call) -> int:
        call.progress(done=1)
        return 7

    async with open_worker(url, services) as (_, worker), aiohttp.ClientSession() as session:
        body: dict[str, Any] = {"input": None, "params": {}}
        async with session.post(f"{worker.url}/exec/count", json=body) as response:
            assert response.content_type == "application/json"
            assert await response.json() == {"result": 7}


@pytest.mark.proves("R5.7")
async def test_the_largest_allowed_progress_arrives(url: str) -> None:
    services, go = Services(), asyncio.Event()
    note = "x" * (PROGRESS_BYTE_COUNT_MAX - len('{"note":""}'))

    @services
    async def write(value: Any, params: Any, call: Call) -> str:
        with pytest.raises(InvalidInput, match="progress"):
            call.progress(note=note + "x")
        call.progress(note=note)
        await go.wait()
        return "written"

    async with open_worker(url, services) as (hw, _):
        run = await start_task(hw, kind="executor", service="write")
        assert (await read_progress(run))["note"] == note
        go.set()
