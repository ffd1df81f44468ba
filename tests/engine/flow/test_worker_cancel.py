"""A cancel reaches a worker during a call; a worker that ignores it changes nothing (I11, I2)."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headway import Headway, RunHandle
from headway.core.run.status import RunStatus
from headway.worker.program import Worker
from headway.worker.service_registry import Call, Services
from tests.engine.flow.raw_worker import CALL_ID, WorkerRequest, encode_response, raw_worker
from tests.engine.flow.scenes import a_flow, summarize

pytestmark = pytest.mark.backend("sqlite")

DEADLINE_S = 5.0
"""One second is promised; the rest allows for a busy machine."""
ASKS = a_flow({"ask": {"kind": "executor", "service": "wait", "post": {"output_key": "out"}}})


class StubbornWorker:
    """Records its requests, and answers its first call only when the test lets it."""

    def __init__(self) -> None:
        self.call: WorkerRequest | None = None
        self.cancel: WorkerRequest | None = None
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = asyncio.Event()
        self.go = asyncio.Event()
        self.has_answered = asyncio.Event()

    async def serve(
        self, request: WorkerRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if request.path.startswith("/cancel/"):
            self.cancel = request
            writer.write(encode_response({"ok": "1"}))
            self.cancelled.set()
            return
        if self.call is not None:
            writer.write(encode_response({"result": "another"}))
            return
        self.call = request
        self.begun.set()
        assert await reader.read() == b""  # No more data until the connection closes.
        self.closed.set()
        await self.go.wait()
        writer.write(encode_response({"result": "late"}))
        self.has_answered.set()


@asynccontextmanager
async def open_call(url: str) -> AsyncIterator[tuple[Headway, StubbornWorker, RunHandle]]:
    """Start a task, and yield it once its worker has received the call."""
    worker = StubbornWorker()
    async with Headway(url, stop_wait_s=0) as hw, raw_worker(worker.serve) as address:
        await hw.workers.register("w", address, ["wait"])
        await hw.flows.publish("asks", ASKS)
        run = await hw.flows.start("asks")
        await worker.begun.wait()
        yield hw, worker, run


@pytest.mark.proves("I11")
async def test_a_cancel_names_the_call_and_closes_the_connection(
    url: str,
) -> None:
    async with open_call(url) as (_, worker, run):
        sent_at_s = time.monotonic()
        await run.cancel()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await worker.cancelled.wait()
                delay_s = time.monotonic() - sent_at_s
                await worker.closed.wait()
        except TimeoutError:
            pytest.fail(f"within {DEADLINE_S:g} s: {worker.cancel}, {worker.closed.is_set()}")
        print(f"a cancel reached a worker after {delay_s * 1_000:.0f} ms")
        assert worker.call is not None
        assert worker.cancel is not None
        assert worker.cancel.path == f"/cancel/{worker.call.headers[CALL_ID]}"
        assert worker.cancel.headers["headway-generation"] == "1"
        assert worker.call.headers["headway-generation"] == "1"
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I11", "R5.7")
async def test_a_service_in_a_thread_can_read_that_its_call_was_canceled(url: str) -> None:
    services, begun, seen = Services(), threading.Event(), threading.Event()
    first_values: list[bool] = []

    @services
    def wait(value: Any, params: Any, call: Call) -> str:
        first_values.append(call.canceled)
        begun.set()
        deadline_s = time.monotonic() + 2 * DEADLINE_S
        while not call.canceled:
            if time.monotonic() > deadline_s:
                return "not cancelled"
            time.sleep(0.005)
        seen.set()
        return "seen"

    async with (
        Headway(url, stop_wait_s=0) as hw,
        Worker(
            services, url="http://127.0.0.1:8080", registry_url="http://127.0.0.1:1", drain_s=0
        ) as worker,
    ):
        await hw.workers.register(worker.id, worker.url, ["wait"])
        await hw.flows.publish("asks", ASKS)
        run = await hw.flows.start("asks")
        assert await asyncio.to_thread(begun.wait, 20)
        await run.cancel()
        assert await asyncio.to_thread(seen.wait, DEADLINE_S)
        assert first_values == [False]
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I2")
async def test_a_late_answer_from_a_worker_that_ignored_the_cancel_changes_nothing(
    url: str,
) -> None:
    async with open_call(url) as (hw, worker, run):
        await run.cancel()
        record = await run.wait_for_end()
        rows = await hw.flows.node_runs(run.id)
        assert (record.run.status, summarize(rows)) == (RunStatus.CANCELED, ["ask canceled"])
        worker.go.set()
        await worker.has_answered.wait()
        other = await hw.flows.start("asks")  # The late answer has arrived by then.
        assert await other.result(20) == {"out": "another"}
        assert await run.wait_for_end() == record
        assert await hw.flows.node_runs(run.id) == rows
