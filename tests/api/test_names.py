"""A name may hold a slash: what can be made has an address."""

from urllib.parse import unquote

import pytest

from tests.api.client import Client
from tests.api.conftest import served
from tests.api.test_flows import ASK

pytestmark = pytest.mark.backend("sqlite")

NAMES = ["eu/west", "a/b/c", "clear", "run", "tasks", "tasks/x"]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("name", NAMES)
async def test_what_can_be_named_can_be_called(url: str, name: str) -> None:
    async with served(url, schedule_name=name) as client:
        for place in (name, name.replace("/", "%2F")):
            await assert_all_of_it_is_there(client, place, name)


async def assert_all_of_it_is_there(client: Client, place: str, name: str) -> None:
    await client.call("PATCH", f"/api/lanes/{place}", {"max_concurrent": 1})
    assert (await client.get(f"/api/lanes/{place}"))["name"] == name
    assert (await client.post(f"/api/lanes/{place}/clear")).status == 200
    await client.call("PUT", f"/api/keys/{place}", {"job": "echo"})
    assert (await client.get(f"/api/keys/{place}"))["key"] == name
    paused = await client.call("PATCH", f"/api/schedules/{place}", {"paused": True})
    assert (paused.status, paused["name"]) == (200, name)
    run = await client.post(f"/api/schedules/{place}/run")
    assert (await client.ended(run["id"]))["key"] == name
    assert (await client.call("PUT", f"/api/flows/{place}", ASK))["name"] == name
    assert (await client.get(f"/api/flows/{place}"))["name"] == name
    assert len((await client.get(f"/api/flows/{place}/versions"))["versions"]) == 1
    assert "flowchart" in (await client.get(f"/api/flows/{place}/graph")).body
    assert (await client.post(f"/api/flows/{place}/tasks", {}))["flow"] == name


async def test_what_can_be_done_at_an_address_is_told(client: Client) -> None:
    for method, path, allowed in (
        ("GET", "/api/lanes/eu/west/clear", "POST"),
        ("PATCH", "/api/schedules/a/run", "POST"),
        ("PUT", "/api/flows/a/graph", "GET"),
        ("GET", "/api/flows/a/b/tasks", "POST"),
    ):
        refused = await client.call(method, path, None if method == "GET" else {})
        assert refused.status == 405, path
        assert refused.headers["allow"].removesuffix(", HEAD") == allowed, path


@pytest.mark.proves("I15")
@pytest.mark.parametrize("path", ["/api/rnus", "/api/runs/", "/nothing/%1B%5B2J", f"/{'x' * 300}"])
async def test_an_address_that_is_none_is_named(client: Client, path: str) -> None:
    """S9: with the way to those that there are, and no more."""
    missing = await client.get(path)
    assert (missing.status, missing["code"]) == (404, "not_found")
    place = unquote(path)[:200]
    assert missing["detail"] == f"there is nothing at {place!r}; /docs lists all calls"


@pytest.mark.proves("I15")
async def test_a_name_may_hold_a_line_break(client: Client) -> None:
    assert (await client.call("PUT", "/api/keys/a%0Ab", {"job": "echo"})).status == 200
    assert (await client.get("/api/keys/a%0Ab"))["key"] == "a\nb"
    assert (await client.call("DELETE", "/api/keys/a%0Ab")).status == 204
    assert (await client.call("PATCH", "/api/lanes/a%0Ab", {"paused": True})).status == 200
    assert (await client.call("POST", "/api/lanes/a%0Ab/clear")).status == 200
    assert (await client.call("PUT", "/api/flows/a%0Ab", ASK)).status == 201
    assert (await client.call("GET", "/api/flows/a%0Ab/graph")).status == 200
