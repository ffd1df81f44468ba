"""Every list returns the next page as a `cursor` and as an address in the `Link` header."""

from typing import Any
from urllib.parse import urljoin

import pytest

from tests.api.client import Client
from tests.api.test_flows import ASK, wait_until_waiting

pytestmark = pytest.mark.backend("sqlite")


async def create_items(client: Client) -> dict[str, Any]:
    """Create three items of each kind, and return the list paths with their member names."""
    paths = {"/api/runs": "runs", "/api/keys": "keys", "/api/interrupts": "interrupts"}
    for name in ("a", "b", "c"):
        await client.call("PUT", f"/api/keys/{name}", {"job": "echo"})
        await client.call("PUT", f"/api/flows/{name}", ASK)
        flow = {"start": name, "nodes": {name: {"kind": "choice"}}}
        await client.call("PUT", "/api/flows/many", flow)
        await client.wait_for_event(await client.submit("ask"), "permission_request")
        task = await client.post("/api/flows/a/tasks", {})
        await wait_until_waiting(client, task["id"], "approval")
    return paths | {
        "/api/flows": "flows",
        "/api/flows/many/versions": "versions",
        "/api/tasks?flow=a": "tasks",
    }


async def test_every_list_links_to_its_next_page(client: Client) -> None:
    for path, member in (await create_items(client)).items():
        address = f"{path}{'&' if '?' in path else '?'}limit=2"
        first = await client.get(address)
        link, _, relation = first.headers["link"].partition("; ")
        assert (link[:2], link[-1], relation) == ("<?", ">", 'rel="next"'), path
        by_link = await client.get(urljoin(address, link[1:-1]))
        by_cursor = await client.get(f"{address}&cursor={first['cursor']}")
        assert by_link.body == by_cursor.body
        assert by_link[member][0] not in first[member]
        assert ("link" in by_link.headers) == (by_link["cursor"] is not None), path
        whole = await client.get(path)
        assert (whole["cursor"], "link" in whole.headers) == (None, False), path


async def test_next_page_address_repeats_the_query(client: Client) -> None:
    """Special characters are preserved, and the address has one `cursor` on every page."""
    key = 'a&b=c d"ä>'
    for _ in range(3):
        await client.wait_for_end(await client.submit("echo", key=key))
    address = "/api/runs?limit=1&key=a%26b%3Dc+d%22%C3%A4%3E&status=succeeded&status=failed"
    keys = []
    while address:
        page = await client.get(address)
        keys += [run["key"] for run in page["runs"]]
        link = page.headers.get("link", "").partition(">")[0]
        address = urljoin(address, link[1:]) if link else ""
    assert keys == [key] * 3


async def test_openapi_document_describes_the_link_header_of_every_list_with_a_cursor(
    client: Client,
) -> None:
    document = (await client.get("/openapi.json")).body
    documented = {
        path
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if "Link" in operation["responses"].get("200", {}).get("headers", {})
    }
    assert documented == {
        *("/api/runs", "/api/runs/{run_id}/files", "/api/keys", "/api/interrupts", "/api/flows"),
        *("/api/flows/{name}/versions", "/api/tasks", "/tasks/runs", "/api/runs/{run_id}/messages"),
    }
