"""Workers register, send heartbeats and leave without failed calls (R5.7, R5.8)."""

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
from tests.engine.flow.raw_worker import WorkerRequest, raw_worker
from tests.engine.flow.scenes import a_flow

pytestmark = pytest.mark.backend("sqlite")

ADDRESS = "http://127.0.0.1:8080"
UNREACHABLE = "http://127.0.0.1:1"


def a_worker(services: Services, registry_url: str, worker_id: str, **options: Any) -> Worker:
    return Worker(services, url=ADDRESS, registry_url=registry_url, worker_id=worker_id, **options)


def holding_service(count: int = 1) -> tuple[Services, asyncio.Event, asyncio.Event]:
    """Return a service `work`, an event for `count` started calls, and one that lets them end."""
    services, all_started, may_end = Services(), asyncio.Event(), asyncio.Event()
    calls = 0

    @services
    async def work(input_: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == count:
            all_started.set()
        await may_end.wait()
        return "done"

    return services, all_started, may_end


async def start_tasks(
    hw: Headway, count: int, *, steps: int = 1, **settings: Any
) -> list[RunHandle]:
    keys = [f"n{at}" for at in range(steps)]
    nodes = {key: {"kind": "executor", "service": "work"} for key in keys}
    edges = [(keys[at], keys[at + 1]) for at in range(steps - 1)]
    await hw.flows.publish("works", a_flow(nodes, *edges) | settings)
    return [await hw.flows.start("works") for _ in range(count)]


async def count_by_worker(hw: Headway, runs: list[RunHandle]) -> Counter[str]:
    """Wait for these tasks, check that no call failed, and count node runs by worker."""
    counts: Counter[str] = Counter()
    async with asyncio.timeout(30):
        for run in runs:
            await run.wait_for_end()
            for row in await hw.flows.node_runs(run.id):
                assert (row.error, row.attempt) == ("", 1)
                assert row.worker is not None
                counts[row.worker.id] += 1
    return counts


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.proves("R5.7")
async def test_no_call_fails_when_a_worker_leaves_under_load(
    client: Client,
) -> None:
    services, all_started, may_end = holding_service(4)
    staying = a_worker(services, client.address, "b")
    async with staying:
        async with a_worker(services, client.address, "a") as leaving:
            await asyncio.gather(staying.wait_until_registered(), leaving.wait_until_registered())
            runs = await start_tasks(client.hw, 20, steps=3)
            await all_started.wait()
            assert leaving.load
            asyncio.get_running_loop().call_later(0.05, may_end.set)  # While the worker drains.
        assert leaving.load == 0
        counts = await count_by_worker(client.hw, runs)
    assert counts.total() == 60
    assert set(counts) == {"a", "b"}


@pytest.mark.proves("R5.7")
async def test_worker_that_left_is_not_listed(client: Client) -> None:
    services, _, _ = holding_service()

    async def list_ids() -> list[Any]:
        workers = (await client.get("/workers/list?service=work")).body
        return [worker["ID"] for worker in workers]

    async with a_worker(services, client.address, "a") as worker:
        await worker.wait_until_registered()
        assert await list_ids() == ["a"]
    assert await list_ids() == []


@pytest.mark.proves("R5.4")
@pytest.mark.parametrize("is_gone", [False, True], ids=["draining", "gone"])
async def test_call_to_a_draining_worker_does_not_count_as_an_attempt(
    url: str, is_gone: bool
) -> None:
    """The worker is still in the registry, because it could not deregister."""
    services, all_started, may_end = holding_service()
    async with Headway(url, stop_wait_s=0) as hw:
        leaving = a_worker(services, UNREACHABLE, "a", drain_s=60)
        staying = Services()
        staying(lambda: "done", name="work")
        async with a_worker(staying, UNREACHABLE, "b") as other, asyncio.TaskGroup() as group:
            await leaving.__aenter__()
            await hw.workers.register("a", leaving.url, ["work"])
            (first,) = await start_tasks(hw, 1)
            await all_started.wait()
            exits = group.create_task(leaving.__aexit__(None, None, None))
            while not leaving._server.is_draining:  # noqa: ASYNC110
                await asyncio.sleep(0)
            if is_gone:
                may_end.set()
                await exits
            await hw.workers.register("b", other.url, ["work"])
            assert await count_by_worker(hw, await start_tasks(hw, 6)) == {"b": 6}
            may_end.set()
            assert await count_by_worker(hw, [first]) == {"a": 1}


@pytest.mark.proves("R5.4")
async def test_node_run_has_the_reason_when_all_workers_are_unreachable(url: str) -> None:
    async with Headway(url, stop_wait_s=0) as hw:
        for name in ("a", "b", "c"):
            await hw.workers.register(name, UNREACHABLE, ["work"])
        (run,) = await start_tasks(hw, 1, worker_wait_ms=0)
        await run.wait_for_end()
        (row,) = await hw.flows.node_runs(run.id)
        assert row.error.startswith("unreachable: cannot connect")


@pytest.mark.proves("R5.7")
async def test_worker_reports_its_load_with_every_heartbeat(client: Client) -> None:
    services, all_started, may_end = holding_service()
    async with a_worker(services, client.address, "a", heartbeat_s=0.01) as worker:
        await worker.wait_until_registered()
        await start_tasks(client.hw, 1)
        await all_started.wait()

        async def loads() -> list[int]:
            return [row["Load"] for row in (await client.get("/list")).body]

        async def is_busy() -> bool:
            return await loads() == [1]

        async def is_idle() -> bool:
            return await loads() == [0]

        await wait_until(is_busy)
        may_end.set()
        await wait_until(is_idle)


@pytest.mark.proves("R5.7")
async def test_worker_registers_again_when_the_registry_lost_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats of an unknown worker are answered as usual (WIRE)."""
    monkeypatch.setattr(program, "REREGISTER_S", 0.02)
    services, _, _ = holding_service()
    store = client.hw.store

    async def is_listed() -> bool:
        return bool((await client.get("/list?service=work")).body)

    async with a_worker(services, client.address, "a", heartbeat_s=0.01) as worker:
        await worker.wait_until_registered()
        tomorrow = add_seconds(await store.runs.now(), seconds=86_400.0)
        assert await store.apply(PruneWorkers(("a",), heartbeat_before=tomorrow)) == 1
        await wait_until(is_listed)


@pytest.mark.proves("R5.7")
async def test_worker_retries_its_registration_and_logs_each_reason_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program, "REGISTER_RETRY_S", 0.005)
    unauthorized = b'{"status": 401, "detail": "send a token"}'
    answers = [(401, unauthorized)] * 3 + [(400, b'{"error": "bad request"}')] * 2 + [(502, b"<p>")]
    paths: list[str] = []

    async def serve(
        request: WorkerRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        paths.append(request.path)
        status, body = answers.pop(0) if answers else (200, b"{}")
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    with caplog.at_level(logging.WARNING, logger="headway.worker"):
        async with raw_worker(serve) as registry, a_worker(Services(), registry, "a") as worker:
            async with asyncio.timeout(20):
                await worker.wait_until_registered()
        assert paths[:7] == ["/register"] * 7
        reasons = [record.reason for record in caplog.records]  # type: ignore[attr-defined]
    assert reasons == ["HTTP 401: send a token", "HTTP 400: bad request", "HTTP 502: <p>"]
