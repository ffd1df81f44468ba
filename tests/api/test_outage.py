"""A client can rely on the answers "nothing was changed" and "outcome unknown" (I20)."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.core.errors import DatabaseUnavailable
from headway.ports.write_tracker import is_written
from tests.api.client import Answer, Client
from tests.api.conftest import served
from tests.api.test_flows import ASK, wait_until_waiting

pytestmark = pytest.mark.backend("sqlite")

Cut = Callable[[Client], None]


def fail_to_connect(*_: Any, **__: Any) -> None:
    raise DatabaseUnavailable({"database": "connection lost"})


@pytest.fixture
def cut_when_written(monkeypatch: pytest.MonkeyPatch) -> Cut:
    """Return a function after which every read fails once the request has written."""

    def cut(client: Client) -> None:
        database = client.hw.store.runs._database
        read = database.read_with_retry

        async def read_until_written(*arguments: Any, **options: Any) -> Any:
            if is_written():
                fail_to_connect()
            return await read(*arguments, **options)

        monkeypatch.setattr(database, "read_with_retry", read_until_written)

    return cut


async def active_run(client: Client) -> str:
    run_id = await client.submit("stay", key="ann")
    await client.wait_until_running(run_id)
    return run_id


async def asking_task(client: Client) -> str:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id: str = (await client.post("/api/flows/asks/tasks", {"key": "bob"}))["id"]
    await wait_until_waiting(client, task_id, "approval")
    return task_id


def assert_outcome_unknown(answer: Answer) -> None:
    assert (answer.status, answer["code"]) == (503, "outcome_unknown"), answer
    assert "may have been carried out" in answer["detail"]
    assert answer.headers["retry-after"]


@pytest.mark.proves("I20")
async def test_change_that_cannot_be_read_back_is_reported_as_outcome_unknown(
    client: Client, cut_when_written: Cut
) -> None:
    run_id, task_id = await active_run(client), await asking_task(client)
    body = {"job": "echo", "params": {"said": 1}}
    first = await client.post("/api/runs", body, idempotency_key="one")
    cut_when_written(client)
    for method, path, change in (
        ("POST", f"/api/runs/{run_id}/cancel", {"reason": "enough"}),
        ("PATCH", "/api/lanes/narrow", {"max_concurrent": 1}),
        ("POST", "/api/flows/asks/tasks", {"key": "cid"}),
        ("POST", f"/api/tasks/{task_id}/signal", {"key": "more", "value": 1}),
        ("POST", f"/api/tasks/{task_id}/approve", {"answer": True}),
        ("POST", f"/api/tasks/{task_id}/cancel", {"reason": "enough"}),
    ):
        assert_outcome_unknown(await client.call(method, path, change))
    assert_outcome_unknown(await client.post("/api/runs", body, idempotency_key="one"))
    assert (await client.get("/api/lanes/narrow"))["max_concurrent"] == 1
    assert (await client.wait_for_end(run_id))["cancel"]["reason"] == "enough"
    assert (await client.get(f"/api/runs/{first['id']}")).status == 200


@pytest.mark.proves("I20")
async def test_response_to_a_schedule_run_needs_no_read_after_the_commit(
    url: str, cut_when_written: Cut
) -> None:
    async with served(url, has_schedule=True) as client:
        cut_when_written(client)
        started = await client.post("/api/schedules/yearly/run")
        assert (started.status, started["key"]) == (201, "yearly")


@pytest.mark.proves("I20")
async def test_outage_while_a_lane_is_cleared_is_reported_as_outcome_unknown(
    client: Client, cut_when_written: Cut
) -> None:
    await client.call("PATCH", "/api/lanes/held", {"paused": True})
    run_id = await client.submit("echo", lane="held")
    cut_when_written(client)
    assert_outcome_unknown(await client.post("/api/lanes/held/clear"))
    assert (await client.wait_for_end(run_id))["status"] == "canceled"


@pytest.mark.proves("I20")
async def test_failure_before_any_write_reports_that_nothing_was_changed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await active_run(client)
    monkeypatch.setattr(client.hw.store.runs._database, "read_with_retry", fail_to_connect)
    for method, path in (("GET", f"/api/runs/{run_id}"), ("POST", "/api/lanes/main/clear")):
        answer = await client.call(method, path)
        assert (answer.status, answer["code"]) == (503, "unavailable")
        assert "nothing was changed" in answer["detail"]
