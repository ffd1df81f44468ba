"""Every list says where its next page is: in its `cursor`, and as an address in `Link`."""

from typing import Any
from urllib.parse import urljoin

import pytest

from tests.api.client import Client
from tests.api.test_flows import ASK, waiting

pytestmark = pytest.mark.backend("sqlite")


async def given(client: Client) -> dict[str, Any]:
    """Three of everything that is listed; the paths of the lists, with what each has."""
    paths = {"/api/runs": "runs", "/api/keys": "keys", "/api/interrupts": "interrupts"}
    for name in ("a", "b", "c"):
        await client.call("PUT", f"/api/keys/{name}", {"job": "echo"})
        await client.call("PUT", f"/api/flows/{name}", ASK)
        flow = {"start": name, "nodes": {name: {"kind": "choice"}}}
        await client.call("PUT", "/api/flows/many", flow)
        await client.told(await client.submitted("ask"), "permission_request")
        task = await client.post("/api/flows/a/tasks", {})
        await waiting(client, task["id"], "approval")
    return paths | {
        "/api/flows": "flows",
        "/api/flows/many/versions": "versions",
        "/api/tasks?flow=a": "tasks",
    }


async def test_every_list_has_the_address_of_its_next_page(client: Client) -> None:
    for path, member in (await given(client)).items():
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


async def test_what_was_asked_for_is_asked_for_again(client: Client) -> None:
    """Whatever is in it; and one `cursor`, however many pages there were before."""
    key = 'a&b=c d"ä>'
    for _ in range(3):
        await client.ended(await client.submitted("echo", key=key))
    address = "/api/runs?limit=1&key=a%26b%3Dc+d%22%C3%A4%3E&status=succeeded&status=failed"
    found = []
    while address:
        page = await client.get(address)
        found += [run["key"] for run in page["runs"]]
        link = page.headers.get("link", "").partition(">")[0]
        address = urljoin(address, link[1:]) if link else ""
    assert found == [key] * 3


async def test_the_document_tells_of_the_address_wherever_there_is_a_cursor(client: Client) -> None:
    document = (await client.get("/openapi.json")).body
    told = {
        path
        for path, operations in document["paths"].items()
        for operation in operations.values()
        if "Link" in operation["responses"].get("200", {}).get("headers", {})
    }
    assert told == {
        *("/api/runs", "/api/runs/{run_id}/files", "/api/keys", "/api/interrupts", "/api/flows"),
        *("/api/flows/{name}/versions", "/api/tasks", "/tasks/runs", "/api/runs/{run_id}/messages"),
    }
