"""Names may contain slashes and line breaks, and their paths work."""

from urllib.parse import unquote

import pytest

from tests.api.client import Client
from tests.api.conftest import served
from tests.api.test_flows import ASK

pytestmark = pytest.mark.backend("sqlite")

NAMES = ["eu/west", "a/b/c", "clear", "run", "tasks", "tasks/x"]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("name", NAMES)
async def test_every_valid_name_works_in_paths(url: str, name: str) -> None:
    async with served(url, schedule_name=name) as client:
        for path_name in (name, name.replace("/", "%2F")):
            await assert_all_calls_work(client, path_name, name)


async def assert_all_calls_work(client: Client, path_name: str, name: str) -> None:
    await client.call("PATCH", f"/api/lanes/{path_name}", {"max_concurrent": 1})
    assert (await client.get(f"/api/lanes/{path_name}"))["name"] == name
    assert (await client.post(f"/api/lanes/{path_name}/clear")).status == 200
    await client.call("PUT", f"/api/keys/{path_name}", {"job": "echo"})
    assert (await client.get(f"/api/keys/{path_name}"))["key"] == name
    paused = await client.call("PATCH", f"/api/schedules/{path_name}", {"paused": True})
    assert (paused.status, paused["name"]) == (200, name)
    run = await client.post(f"/api/schedules/{path_name}/run")
    assert (await client.wait_for_end(run["id"]))["key"] == name
    assert (await client.call("PUT", f"/api/flows/{path_name}", ASK))["name"] == name
    assert (await client.get(f"/api/flows/{path_name}"))["name"] == name
    assert len((await client.get(f"/api/flows/{path_name}/versions"))["versions"]) == 1
    assert "flowchart" in (await client.get(f"/api/flows/{path_name}/graph")).body
    assert (await client.post(f"/api/flows/{path_name}/tasks", {}))["flow"] == name


async def test_wrong_method_is_405_with_the_allowed_methods(client: Client) -> None:
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
async def test_answer_to_an_unknown_path_is_404_and_names_the_path(
    client: Client, path: str
) -> None:
    """The answer also names the page that lists all calls, and reveals nothing else (S9)."""
    missing = await client.get(path)
    assert (missing.status, missing["code"]) == (404, "not_found")
    shown_path = unquote(path)[:200]
    assert missing["detail"] == f"unknown path {shown_path!r}; /docs lists all calls"


@pytest.mark.proves("I15")
async def test_name_may_contain_a_line_break(client: Client) -> None:
    assert (await client.call("PUT", "/api/keys/a%0Ab", {"job": "echo"})).status == 200
    assert (await client.get("/api/keys/a%0Ab"))["key"] == "a\nb"
    assert (await client.call("DELETE", "/api/keys/a%0Ab")).status == 204
    assert (await client.call("PATCH", "/api/lanes/a%0Ab", {"paused": True})).status == 200
    assert (await client.call("POST", "/api/lanes/a%0Ab/clear")).status == 200
    assert (await client.call("PUT", "/api/flows/a%0Ab", ASK)).status == 201
    assert (await client.call("GET", "/api/flows/a%0Ab/graph")).status == 200
