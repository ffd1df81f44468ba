"""A worker that sends responses twice: no call receives the response of another (I1)."""

import asyncio
from contextlib import suppress

import pytest

from headway import Headway
from headway.adapters.http.aiohttp_worker_client import HttpWorkerClient
from headway.core.flow.engine.state import NodeRun
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.engine.flow.raw_worker import CALL_ID, WorkerRequest, encode_response, raw_worker
from tests.engine.flow.scenes import a_flow

pytestmark = pytest.mark.backend("sqlite")

CALL_COUNT = 6


class RepeatingWorker:
    """Sends each response twice: at once, or again before the next response."""

    def __init__(self, *, names_calls: bool, is_late: bool) -> None:
        self._names_calls = names_calls
        self._is_late = is_late
        self._last_responses: dict[asyncio.StreamWriter, bytes] = {}
        self.connection_count = 0

    async def serve(
        self, request: WorkerRequest, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if writer not in self._last_responses:
            self.connection_count += 1
        writer.write(self._last_responses.get(writer, b""))
        headers = {"Headway_Call_Id": request.headers[CALL_ID]} if self._names_calls else {}
        response = encode_response({"result": request.body["input"]}, **headers)
        writer.write(response if self._is_late else response * 2)
        self._last_responses[writer] = response if self._is_late else b""


async def run_calls(url: str, address: str) -> list[NodeRun]:
    """Run a task with one call after the other, and return its node runs."""
    nodes = {
        f"n{number}": {
            "kind": "executor",
            "service": "same",
            "prep": {"input_key": f"$params.n{number}"},
            "post": {"output_key": "out"},
            "on_error": "default",
        }
        for number in range(CALL_COUNT)
    }
    edges = [(f"n{number}", f"n{number + 1}") for number in range(CALL_COUNT - 1)]
    async with Headway(url, stop_wait_s=0) as hw:
        await hw.workers.register("w", address, ["same"])
        await hw.flows.publish("asks", a_flow(nodes, *edges))
        run = await hw.flows.start(
            "asks", params={f"n{number}": number for number in range(CALL_COUNT)}
        )
        async with asyncio.timeout(20):
            await run.wait_for_end()
        return list(await hw.flows.node_runs(run.id))


@pytest.mark.proves("I1")
@pytest.mark.parametrize("is_late", [True, False], ids=["late", "at-once"])
async def test_a_worker_that_returns_no_call_id_gets_one_connection_per_call(
    url: str, is_late: bool
) -> None:
    worker = RepeatingWorker(names_calls=False, is_late=is_late)
    async with raw_worker(worker.serve) as address:
        rows = await run_calls(url, address)
    assert [(row.output, row.error) for row in rows] == [
        (number, "") for number in range(CALL_COUNT)
    ]
    assert worker.connection_count == CALL_COUNT


@pytest.mark.proves("I1")
async def test_a_repeated_response_that_names_another_call_is_refused(url: str) -> None:
    worker = RepeatingWorker(names_calls=True, is_late=True)
    async with raw_worker(worker.serve) as address:
        rows = await run_calls(url, address)
    assert len(rows) == CALL_COUNT
    refused = [number for number, row in enumerate(rows) if row.error]
    assert refused
    for number, row in enumerate(rows):
        if number in refused:
            assert row.error.startswith("bad_answer: the answer names ")
        else:
            assert row.output == number


@pytest.mark.proves("I1")
async def test_a_first_response_that_names_another_call_is_refused(url: str) -> None:
    async def serve(
        request: WorkerRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(encode_response({"result": 1}, Headway_Call_Id="r1.c1"))

    async with raw_worker(serve) as address:
        rows = await run_calls(url, address)
    assert {row.error.partition(",")[0] for row in rows} == {"bad_answer: the answer names r1.c1"}


@pytest.mark.proves("R5.6")
async def test_a_worker_that_stops_returning_call_ids_is_accepted(
    url: str,
) -> None:
    """An older program may replace a newer one at the same address."""
    count = 0

    async def serve(
        request: WorkerRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal count
        count += 1
        headers = {"Headway_Call_Id": request.headers[CALL_ID]} if count % 2 else {}
        writer.write(
            encode_response({"result": request.body["input"]}, Connection="close", **headers)
        )
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with raw_worker(serve) as address:
        rows = await run_calls(url, address)
    assert [(row.output, row.error) for row in rows] == [
        (number, "") for number in range(CALL_COUNT)
    ]


@pytest.mark.proves("I1")
async def test_a_headway_worker_is_called_over_reused_connections(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    make_socket = HttpWorkerClient._make_socket

    def record_connection(self: HttpWorkerClient, address: tuple[object, ...]) -> object:
        connections.append(address)
        return make_socket(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpWorkerClient, "_make_socket", record_connection)
    services = Services()
    services(lambda value: value, name="same")
    async with Worker(
        services, url="http://127.0.0.1:8080", registry_url="http://127.0.0.1:1"
    ) as worker:
        rows = await run_calls(url, worker.url)
    assert [row.output for row in rows] == list(range(CALL_COUNT))
    assert len(connections) == 2  # Before and after the client sees that it names its calls.
