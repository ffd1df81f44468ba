"""A worker comes, says that it lives, and leaves, and no call is the worse for it (R5.7, R5.8)."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headway import Headway
from headway.core.command.flow.register_worker import PruneWorkers
from headway.core.ids import add_seconds
from headway.services.submit.run_handle import RunHandle
from headway.worker import program
from headway.worker.program import Worker
from headway.worker.service_registry import Services
from tests.api.client import Client
from tests.engine.flow.raw_worker import Heard, raw_worker
from tests.engine.flow.scenes import a_flow

pytestmark = pytest.mark.backend("sqlite")

ADDRESS = "http://127.0.0.1:8080"
NOBODY = "http://127.0.0.1:1"


def a_worker(services: Services, registry_url: str, worker_id: str, **more: Any) -> Worker:
    return Worker(services, url=ADDRESS, registry_url=registry_url, worker_id=worker_id, **more)


def held(count: int = 1) -> tuple[Services, asyncio.Event, asyncio.Event]:
    """A service `work`, the moment when so many calls have begun, and what lets them end."""
    services, begun, go = Services(), asyncio.Event(), asyncio.Event()
    calls = 0

    @services
    async def work(given: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == count:
            begun.set()
        await go.wait()
        return "done"

    return services, begun, go


async def started(hw: Headway, count: int, *, steps: int = 1, **settings: Any) -> list[RunHandle]:
    keys = [f"n{at}" for at in range(steps)]
    nodes = {key: {"kind": "executor", "service": "work"} for key in keys}
    edges = [(keys[at], keys[at + 1]) for at in range(steps - 1)]
    await hw.flows.publish("works", a_flow(nodes, *edges) | settings)
    return [await hw.flows.start("works") for _ in range(count)]


async def asked(hw: Headway, runs: list[RunHandle]) -> Counter[str]:
    """Who did the node runs of these tasks, all of which went well."""
    found: Counter[str] = Counter()
    async with asyncio.timeout(30):
        for run in runs:
            await run.wait_for_end()
            for row in await hw.flows.node_runs(run.id):
                assert (row.error, row.attempt) == ("", 1)
                assert row.worker is not None
                found[row.worker.id] += 1
    return found


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not await is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.proves("R5.7")
async def test_a_worker_that_leaves_under_load_fails_nothing_and_loses_nothing(
    client: Client,
) -> None:
    services, begun, go = held(4)
    staying = a_worker(services, client.address, "b")
    async with staying:
        async with a_worker(services, client.address, "a") as leaving:
            await asyncio.gather(staying.wait_until_registered(), leaving.wait_until_registered())
            runs = await started(client.hw, 20, steps=3)
            await begun.wait()
            assert leaving.load
            asyncio.get_running_loop().call_later(0.05, go.set)  # While it drains.
        assert leaving.load == 0
        counts = await asked(client.hw, runs)
    assert counts.total() == 60
    assert set(counts) == {"a", "b"}


@pytest.mark.proves("R5.7")
async def test_who_leaves_is_offered_by_the_registry_no_more(client: Client) -> None:
    services, _, _ = held()

    async def listed() -> list[Any]:
        found = (await client.get("/workers/list?service=work")).body
        return [one["ID"] for one in found]

    async with a_worker(services, client.address, "a") as worker:
        await worker.wait_until_registered()
        assert await listed() == ["a"]
    assert await listed() == []


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("is_gone", [False, True], ids=["draining", "gone"])
async def test_who_has_not_begun_is_no_try(url: str, is_gone: bool) -> None:
    """It is still in the registry: it could not say that it leaves."""
    services, begun, go = held()
    async with Headway(url, stop_wait_s=0) as hw:
        leaving = a_worker(services, NOBODY, "a", drain_s=60)
        staying = Services()
        staying(lambda: "done", name="work")
        async with a_worker(staying, NOBODY, "b") as other, asyncio.TaskGroup() as group:
            await leaving.__aenter__()
            await hw.workers.register("a", leaving.url, ["work"])
            (first,) = await started(hw, 1)
            await begun.wait()
            exits = group.create_task(leaving.__aexit__(None, None, None))
            while not leaving._server.is_draining:  # noqa: ASYNC110
                await asyncio.sleep(0)
            if is_gone:
                go.set()
                await exits
            await hw.workers.register("b", other.url, ["work"])
            assert await asked(hw, await started(hw, 6)) == {"b": 6}
            go.set()
            assert await asked(hw, [first]) == {"a": 1}


@pytest.mark.proves("R5.4")
async def test_when_all_are_gone_the_reason_is_told(url: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw:
        for name in ("a", "b", "c"):
            await hw.workers.register(name, NOBODY, ["work"])
        (run,) = await started(hw, 1, worker_wait_ms=0)
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error.startswith("unreachable: cannot connect")


@pytest.mark.proves("R5.7")
async def test_a_worker_tells_its_load_with_every_heartbeat(client: Client) -> None:
    services, begun, go = held()
    async with a_worker(services, client.address, "a", heartbeat_s=0.01) as worker:
        await worker.wait_until_registered()
        await started(client.hw, 1)
        await begun.wait()

        async def loads() -> list[int]:
            return [one["Load"] for one in (await client.get("/list")).body]

        async def is_busy() -> bool:
            return await loads() == [1]

        async def is_idle() -> bool:
            return await loads() == [0]

        await until(is_busy)
        go.set()
        await until(is_idle)


@pytest.mark.proves("R5.7")
async def test_a_worker_that_the_registry_has_lost_comes_back(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats of a worker that nobody knows are answered as ever (WIRE)."""
    monkeypatch.setattr(program, "REREGISTER_S", 0.02)
    services, _, _ = held()
    store = client.hw.store

    async def is_listed() -> bool:
        return bool((await client.get("/list?service=work")).body)

    async with a_worker(services, client.address, "a", heartbeat_s=0.01) as worker:
        await worker.wait_until_registered()
        tomorrow = add_seconds(await store.runs.now(), seconds=86_400.0)
        assert await store.apply(PruneWorkers(("a",), heartbeat_before=tomorrow)) == 1
        await until(is_listed)


@pytest.mark.proves("R5.7")
async def test_a_worker_registers_until_it_is_heard_and_says_once_why_it_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program, "REGISTER_RETRY_S", 0.005)
    unauthorized = b'{"status": 401, "detail": "send a token"}'
    answers = [(401, unauthorized)] * 3 + [(400, b'{"error": "bad request"}')] * 2 + [(502, b"<p>")]
    words: list[str] = []

    async def serve(
        heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        words.append(heard.path)
        status, body = answers.pop(0) if answers else (200, b"{}")
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    with caplog.at_level(logging.WARNING, logger="headway.worker"):
        async with raw_worker(serve) as registry, a_worker(Services(), registry, "a") as worker:
            async with asyncio.timeout(20):
                await worker.wait_until_registered()
        assert words[:7] == ["/register"] * 7
        reasons = [record.reason for record in caplog.records]  # type: ignore[attr-defined]
    assert reasons == ["HTTP 401: send a token", "HTTP 400: bad request", "HTTP 502: <p>"]
