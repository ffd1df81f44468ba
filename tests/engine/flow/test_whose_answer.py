"""A worker that answers twice: no call ever gets the answer of another (I1)."""

import asyncio
from contextlib import suppress

import pytest

from headway import Headway
from headway.adapters.http.aiohttp_worker_client import HttpWorkerClient
from headway.core.flow.engine.state import NodeRun
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.engine.flow.raw_worker import CALL_ID, Heard, answer_of, raw_worker
from tests.engine.flow.scenes import a_flow

pytestmark = pytest.mark.backend("sqlite")

CALL_COUNT = 6


class TwiceOver:
    """Keeps its connections, and says its last answer of each once more, late, before the next."""

    def __init__(self, *, names_calls: bool, is_late: bool) -> None:
        self._names_calls = names_calls
        self._is_late = is_late
        self._said: dict[asyncio.StreamWriter, bytes] = {}
        self.connection_count = 0

    async def serve(
        self, heard: Heard, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if writer not in self._said:
            self.connection_count += 1
        writer.write(self._said.get(writer, b""))
        named = {"Headway_Call_Id": heard.headers[CALL_ID]} if self._names_calls else {}
        answer = answer_of({"result": heard.body["input"]}, **named)
        writer.write(answer if self._is_late else answer * 2)
        self._said[writer] = answer if self._is_late else b""


async def rows_of(url: str, address: str) -> list[NodeRun]:
    """The node runs of a task that asks for one number after the other."""
    nodes = {
        f"n{at}": {
            "kind": "executor",
            "service": "same",
            "prep": {"input_key": f"$params.n{at}"},
            "post": {"output_key": "out"},
            "on_error": "default",
        }
        for at in range(CALL_COUNT)
    }
    edges = [(f"n{at}", f"n{at + 1}") for at in range(CALL_COUNT - 1)]
    async with Headway(url, stop_wait_s=0) as hw:
        await hw.workers.register("w", address, ["same"])
        await hw.flows.publish("asks", a_flow(nodes, *edges))
        run = await hw.flows.start("asks", params={f"n{at}": at for at in range(CALL_COUNT)})
        async with asyncio.timeout(20):
            await run.wait_for_end()
        return list(await hw.flows.node_runs(run.id))


@pytest.mark.proves("I1")
@pytest.mark.parametrize("is_late", [True, False], ids=["late", "at-once"])
async def test_a_worker_that_names_no_calls_is_asked_over_a_connection_for_each(
    url: str, is_late: bool
) -> None:
    worker = TwiceOver(names_calls=False, is_late=is_late)
    async with raw_worker(worker.serve) as address:
        rows = await rows_of(url, address)
    assert [(row.output, row.error) for row in rows] == [(at, "") for at in range(CALL_COUNT)]
    assert worker.connection_count == CALL_COUNT


@pytest.mark.proves("I1")
async def test_an_answer_that_names_another_call_is_refused(url: str) -> None:
    worker = TwiceOver(names_calls=True, is_late=True)
    async with raw_worker(worker.serve) as address:
        rows = await rows_of(url, address)
    assert len(rows) == CALL_COUNT
    refused = [at for at, row in enumerate(rows) if row.error]
    assert refused
    for at, row in enumerate(rows):
        if at in refused:
            assert row.error.startswith("bad_answer: it answered ")
        else:
            assert row.output == at


@pytest.mark.proves("I1")
async def test_who_names_another_call_at_once_is_refused_as_well(url: str) -> None:
    async def serve(
        heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(answer_of({"result": 1}, Headway_Call_Id="r1.c1"))

    async with raw_worker(serve) as address:
        rows = await rows_of(url, address)
    assert {row.error.partition(",")[0] for row in rows} == {"bad_answer: it answered r1.c1"}


@pytest.mark.proves("R5.6")
async def test_a_worker_that_named_calls_and_names_none_now_is_heard_all_the_same(
    url: str,
) -> None:
    """An older program may come to where a newer one was."""
    count = 0

    async def serve(
        heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal count
        count += 1
        named = {"Headway_Call_Id": heard.headers[CALL_ID]} if count % 2 else {}
        writer.write(answer_of({"result": heard.body["input"]}, Connection="close", **named))
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with raw_worker(serve) as address:
        rows = await rows_of(url, address)
    assert [(row.output, row.error) for row in rows] == [(at, "") for at in range(CALL_COUNT)]


@pytest.mark.proves("I1")
async def test_a_worker_of_ours_is_asked_over_connections_that_are_kept(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialled = []
    dial = HttpWorkerClient._make_socket

    def counted(self: HttpWorkerClient, found: tuple[object, ...]) -> object:
        dialled.append(found)
        return dial(self, found)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpWorkerClient, "_dial", counted)
    services = Services()
    services(lambda given: given, name="same")
    async with Worker(
        services, url="http://127.0.0.1:8080", registry_url="http://127.0.0.1:1"
    ) as worker:
        rows = await rows_of(url, worker.url)
    assert [row.output for row in rows] == list(range(CALL_COUNT))
    assert len(dialled) == 2  # Before and after it is known that it names its calls.
