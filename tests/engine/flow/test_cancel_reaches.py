"""A cancel reaches a worker in the midst of a call; one that ignores it is fenced off (I11, I2)."""

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
from tests.engine.flow.raw_worker import CALL_ID, Heard, answer_of, raw_worker
from tests.engine.flow.scenes import a_flow, told

pytestmark = pytest.mark.backend("sqlite")

DEADLINE_S = 5.0
"""A second is promised; the rest is for a machine that does much else."""
ASKS = a_flow({"ask": {"kind": "executor", "service": "wait", "post": {"output_key": "out"}}})


class Unheeding:
    """Notes what it is told, and answers its first call only when the test says so."""

    def __init__(self) -> None:
        self.call: Heard | None = None
        self.cancel: Heard | None = None
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.closed = asyncio.Event()
        self.go = asyncio.Event()
        self.has_answered = asyncio.Event()

    async def serve(
        self, heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if heard.path.startswith("/cancel/"):
            self.cancel = heard
            writer.write(answer_of({"ok": "1"}))
            self.cancelled.set()
            return
        if self.call is not None:
            writer.write(answer_of({"result": "another"}))
            return
        self.call = heard
        self.begun.set()
        assert await reader.read() == b""  # Nobody says more: it ends with the connection.
        self.closed.set()
        await self.go.wait()
        writer.write(answer_of({"result": "late"}))
        self.has_answered.set()


@asynccontextmanager
async def under_way(url: str) -> AsyncIterator[tuple[Headway, Unheeding, RunHandle]]:
    """A task whose worker is in the middle of its call."""
    worker = Unheeding()
    async with Headway(url, stop_wait_s=0) as hw, raw_worker(worker.serve) as address:
        await hw.workers.register("w", address, ["wait"])
        await hw.flows.publish("asks", ASKS)
        run = await hw.flows.start("asks")
        await worker.begun.wait()
        yield hw, worker, run


@pytest.mark.proves("I11")
async def test_a_cancel_tells_the_worker_which_call_of_which_claim_and_hangs_up(
    url: str,
) -> None:
    async with under_way(url) as (_, worker, run):
        asked_s = time.monotonic()
        await run.cancel()
        try:
            async with asyncio.timeout(DEADLINE_S):
                await worker.cancelled.wait()
                reached_s = time.monotonic() - asked_s
                await worker.closed.wait()
        except TimeoutError:
            pytest.fail(f"within {DEADLINE_S:g} s: {worker.cancel}, {worker.closed.is_set()}")
        print(f"a cancel reached a worker after {reached_s * 1_000:.0f} ms")
        assert worker.call is not None
        assert worker.cancel is not None
        assert worker.cancel.path == f"/cancel/{worker.call.headers[CALL_ID]}"
        assert worker.cancel.headers["headway-generation"] == "1"
        assert worker.call.headers["headway-generation"] == "1"
        assert (await run.wait_for_end()).run.status is RunStatus.CANCELED


@pytest.mark.proves("I11", "R5.7")
async def test_a_service_in_a_thread_reads_in_a_bool_that_it_is_cancelled(url: str) -> None:
    services, begun, seen = Services(), threading.Event(), threading.Event()
    first_values: list[bool] = []

    @services
    def wait(given: Any, params: Any, call: Call) -> str:
        first_values.append(call.cancelled)
        begun.set()
        until_s = time.monotonic() + 2 * DEADLINE_S
        while not call.cancelled:
            if time.monotonic() > until_s:
                return "nobody said so"
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
async def test_what_a_worker_answers_that_heeds_nothing_changes_nothing(url: str) -> None:
    async with under_way(url) as (hw, worker, run):
        await run.cancel()
        record = await run.wait_for_end()
        rows = await hw.flows.node_runs(run.id)
        assert (record.run.status, told(rows)) == (RunStatus.CANCELED, ["ask canceled"])
        worker.go.set()
        await worker.has_answered.wait()
        other = await hw.flows.start("asks")  # Whatever was to be heard is heard by then.
        assert await other.result(20) == {"out": "another"}
        assert await run.wait_for_end() == record
        assert await hw.flows.node_runs(run.id) == rows
