"""I20: whoever is told that nothing was changed can rely on it, and the others are told too."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.core.errors import DatabaseUnavailable
from headway.write_tracker import is_written
from tests.api.client import Answer, Client
from tests.api.conftest import served
from tests.api.test_flows import ASK, waiting

pytestmark = pytest.mark.backend("sqlite")

Cut = Callable[[Client], None]


def lost(*_: Any, **__: Any) -> None:
    raise DatabaseUnavailable({"database": "it went away"})


@pytest.fixture
def cut_when_written(monkeypatch: pytest.MonkeyPatch) -> Cut:
    """From there on the database answers no reader, as soon as a request has written."""

    def cut(client: Client) -> None:
        database = client.hw.store.runs._database
        read = database.read_with_retry

        async def read_until_written(*given: Any, **more: Any) -> Any:
            if is_written():
                lost()
            return await read(*given, **more)

        monkeypatch.setattr(database, "with_retry", read_until_written)

    return cut


async def active_run(client: Client) -> str:
    run_id = await client.submitted("stay", key="ann")
    await client.begun(run_id)
    return run_id


async def asking_task(client: Client) -> str:
    await client.call("PUT", "/api/flows/asks", ASK)
    task_id: str = (await client.post("/api/flows/asks/tasks", {"key": "bob"}))["id"]
    await waiting(client, task_id, "approval")
    return task_id


def assert_may_be_done(answer: Answer) -> None:
    assert (answer.status, answer["code"]) == (503, "outcome_unknown"), answer
    assert "may have been done" in answer["detail"]
    assert answer.headers["retry-after"]


@pytest.mark.proves("I20")
async def test_what_was_written_is_not_denied_when_it_cannot_be_shown(
    client: Client, cut_when_written: Cut
) -> None:
    run_id, task_id = await active_run(client), await asking_task(client)
    body = {"job": "echo", "params": {"said": 1}}
    first = await client.post("/api/runs", body, idempotency_key="one")
    cut_when_written(client)
    for method, path, given in (
        ("POST", f"/api/runs/{run_id}/cancel", {"reason": "enough"}),
        ("PATCH", "/api/lanes/narrow", {"max_concurrent": 1}),
        ("POST", "/api/flows/asks/tasks", {"key": "cid"}),
        ("POST", f"/api/tasks/{task_id}/signal", {"key": "more", "value": 1}),
        ("POST", f"/api/tasks/{task_id}/approve", {"answer": True}),
        ("POST", f"/api/tasks/{task_id}/cancel", {"reason": "enough"}),
    ):
        assert_may_be_done(await client.call(method, path, given))
    assert_may_be_done(await client.post("/api/runs", body, idempotency_key="one"))
    assert (await client.get("/api/lanes/narrow"))["max_concurrent"] == 1
    assert (await client.ended(run_id))["cancel"]["reason"] == "enough"
    assert (await client.get(f"/api/runs/{first['id']}")).status == 200


@pytest.mark.proves("I20")
async def test_what_was_accepted_is_answered_without_another_look(
    url: str, cut_when_written: Cut
) -> None:
    async with served(url, has_schedule=True) as client:
        cut_when_written(client)
        started = await client.post("/api/schedules/yearly/run")
        assert (started.status, started["key"]) == (201, "yearly")


@pytest.mark.proves("I20")
async def test_a_lane_that_is_cleared_half_way_is_not_said_to_be_as_it_was(
    client: Client, cut_when_written: Cut
) -> None:
    await client.call("PATCH", "/api/lanes/held", {"paused": True})
    run_id = await client.submitted("echo", lane="held")
    cut_when_written(client)
    assert_may_be_done(await client.post("/api/lanes/held/clear"))
    assert (await client.ended(run_id))["status"] == "canceled"


@pytest.mark.proves("I20")
async def test_what_fails_before_anything_was_written_says_that_nothing_was_changed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await active_run(client)
    monkeypatch.setattr(client.hw.store.runs._database, "with_retry", lost)
    for method, path in (("GET", f"/api/runs/{run_id}"), ("POST", "/api/lanes/main/clear")):
        answer = await client.call(method, path)
        assert (answer.status, answer["code"]) == (503, "unavailable")
        assert "nothing was changed" in answer["detail"]
