"""A worker and the claims that call it: an older one does not touch what a newer one wants (I2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headway.worker.program import Worker
from headway.worker.service_registry import Call, Services
from tests.engine.flow.raw_worker import asked

pytestmark = pytest.mark.backend("sqlite")

CALL_ID = "r1.c1"


class Held:
    """A service whose calls last until they are let go."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.go = asyncio.Event()
        self.services = Services()
        self.services(self.hold)

    async def hold(self, _given: Any, _params: Any, call: Call) -> int:
        self.begun.put_nowait(call.generation)
        await self.go.wait()
        return call.generation


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def worker(held: Held) -> AsyncIterator[Worker]:
    address = "http://127.0.0.1:8080"
    async with Worker(
        held.services, url=address, registry_url="http://127.0.0.1:1", drain_s=0
    ) as worker:
        yield worker


def said_by(generation: int | None) -> dict[str, str]:
    said = {} if generation is None else {"Headway_Generation": str(generation)}
    return {"Headway_Call_Id": CALL_ID, **said}


async def called(worker: Worker, generation: int | None) -> tuple[int, Any]:
    return await asked(worker.url, "/exec/hold", **said_by(generation))


@pytest.mark.proves("I2")
@pytest.mark.parametrize(("generation", "is_stopped"), [(1, False), (2, True), (3, True)])
async def test_a_cancel_stops_the_calls_of_its_own_claim_and_of_older_ones(
    worker: Worker, held: Held, generation: int, is_stopped: bool
) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(called(worker, 2))
        assert await held.begun.get() == 2
        cancel = await asked(worker.url, f"/cancel/{CALL_ID}", **said_by(generation))
        assert cancel == (200, {"ok": "1"})
        held.go.set()
    assert call.result() == (200, {"error": "canceled"} if is_stopped else {"result": 2})


@pytest.mark.proves("R5.7")
async def test_a_cancel_that_knows_nothing_of_claims_stops_the_call(
    worker: Worker, held: Held
) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(called(worker, 2))
        await held.begun.get()
        await asked(worker.url, f"/cancel/{CALL_ID}")
    assert call.result() == (200, {"error": "canceled"})


@pytest.mark.proves("I2")
async def test_the_call_of_an_older_claim_is_refused_and_the_newer_goes_on(
    worker: Worker, held: Held
) -> None:
    async with asyncio.TaskGroup() as group:
        newer = group.create_task(called(worker, 2))
        assert await held.begun.get() == 2
        status, said = await called(worker, 1)
        assert (status, said["error"].partition(":")[0]) == (409, "superseded")
        held.go.set()
    assert newer.result() == (200, {"result": 2})
    assert held.begun.empty()


@pytest.mark.proves("I2")
async def test_the_call_of_a_newer_claim_ends_the_older(worker: Worker, held: Held) -> None:
    async with asyncio.TaskGroup() as group:
        older = group.create_task(called(worker, 1))
        assert await held.begun.get() == 1
        newer = group.create_task(called(worker, 2))
        assert await held.begun.get() == 2
        cancel = await asked(worker.url, f"/cancel/{CALL_ID}", **said_by(1))
        assert cancel == (200, {"ok": "1"})
        held.go.set()
    assert older.result() == (200, {"error": "canceled"})
    assert newer.result() == (200, {"result": 2})
