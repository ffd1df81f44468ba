"""A worker and the claims that call it: an older claim does not affect a newer one (I2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headway.worker.program import Worker
from headway.worker.service_registry import Call, Services
from tests.engine.flow.raw_worker import post_json

pytestmark = pytest.mark.backend("sqlite")

CALL_ID = "r1.c1"


class HeldService:
    """A service whose calls last until the test releases them."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.go = asyncio.Event()
        self.services = Services()
        self.services(self.hold)

    async def hold(self, _value: Any, _params: Any, call: Call) -> int:
        self.begun.put_nowait(call.generation)
        await self.go.wait()
        return call.generation


@pytest.fixture
def service() -> HeldService:
    return HeldService()


@pytest.fixture
async def worker(service: HeldService) -> AsyncIterator[Worker]:
    address = "http://127.0.0.1:8080"
    async with Worker(
        service.services, url=address, registry_url="http://127.0.0.1:1", drain_s=0
    ) as worker:
        yield worker


def headers_of(generation: int | None) -> dict[str, str]:
    headers = {} if generation is None else {"Headway_Generation": str(generation)}
    return {"Headway_Call_Id": CALL_ID, **headers}


async def call_service(worker: Worker, generation: int | None) -> tuple[int, Any]:
    return await post_json(worker.url, "/exec/hold", **headers_of(generation))


@pytest.mark.proves("I2")
@pytest.mark.parametrize(("generation", "is_stopped"), [(1, False), (2, True), (3, True)])
async def test_a_cancel_stops_the_calls_of_its_own_claim_and_of_older_ones(
    worker: Worker, service: HeldService, generation: int, is_stopped: bool
) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(call_service(worker, 2))
        assert await service.begun.get() == 2
        cancel = await post_json(worker.url, f"/cancel/{CALL_ID}", **headers_of(generation))
        assert cancel == (200, {"ok": "1"})
        service.go.set()
    assert call.result() == (200, {"error": "canceled"} if is_stopped else {"result": 2})


@pytest.mark.proves("R5.7")
async def test_a_cancel_without_a_generation_stops_the_call(
    worker: Worker, service: HeldService
) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(call_service(worker, 2))
        await service.begun.get()
        await post_json(worker.url, f"/cancel/{CALL_ID}")
    assert call.result() == (200, {"error": "canceled"})


@pytest.mark.proves("I2")
async def test_a_call_of_an_older_claim_is_refused(worker: Worker, service: HeldService) -> None:
    async with asyncio.TaskGroup() as group:
        newer = group.create_task(call_service(worker, 2))
        assert await service.begun.get() == 2
        status, body = await call_service(worker, 1)
        assert (status, body["error"].partition(":")[0]) == (409, "superseded")
        service.go.set()
    assert newer.result() == (200, {"result": 2})
    assert service.begun.empty()


@pytest.mark.proves("I2")
async def test_a_call_of_a_newer_claim_cancels_the_call_of_an_older_claim(
    worker: Worker, service: HeldService
) -> None:
    async with asyncio.TaskGroup() as group:
        older = group.create_task(call_service(worker, 1))
        assert await service.begun.get() == 1
        newer = group.create_task(call_service(worker, 2))
        assert await service.begun.get() == 2
        cancel = await post_json(worker.url, f"/cancel/{CALL_ID}", **headers_of(1))
        assert cancel == (200, {"ok": "1"})
        service.go.set()
    assert older.result() == (200, {"error": "canceled"})
    assert newer.result() == (200, {"result": 2})
