"""Lists go page by page, in one manner: `cursor` in the answer, `cursor` in the next question."""

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.test_flows import ASK, waiting

pytestmark = pytest.mark.backend("sqlite")


async def pages(client: Client, path: str, member: str) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = await client.get(f"{path}?limit=2" + (f"&cursor={cursor}" if cursor else ""))
        assert answer.status == 200, answer
        found.append(answer[member])
        cursor = answer["cursor"]
    return found


async def test_flows_versions_and_tasks_are_listed_page_by_page(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.call("PUT", f"/api/flows/{name}", ASK)
    flows = await pages(client, "/api/flows", "flows")
    assert [[one["name"] for one in page] for page in flows] == [["a", "b"], ["c"]]
    for node in ("x", "y", "z"):
        flow = {"start": node, "nodes": {node: {"kind": "choice"}}}
        await client.call("PUT", "/api/flows/a", flow)
    versions = await pages(client, "/api/flows/a/versions", "versions")
    assert [[one["version"] for one in page] for page in versions] == [[4, 3], [2, 1]]
    ids = [(await client.post("/api/flows/b/tasks", {}))["id"] for _ in range(5)]
    for task_id in ids:
        await waiting(client, task_id, "approval")
    tasks = await pages(client, "/api/tasks", "tasks")
    assert [len(page) for page in tasks] == [2, 2, 1]
    assert sorted(one["id"] for page in tasks for one in page) == sorted(ids)


async def test_saved_rows_are_listed_page_by_page(client: Client) -> None:
    keys = ["a", "b/ä", "c d"]
    for key in keys:
        await client.call("PUT", f"/api/keys/{key}", {"job": "echo"})
    rows = await pages(client, "/api/keys", "keys")
    assert [one["key"] for page in rows for one in page] == keys


@pytest.mark.parametrize(
    "path",
    [
        *("/api/runs", "/api/keys", "/api/flows", "/api/tasks", "/api/interrupts"),
        *("/api/flows/a/versions", "/api/runs/r/files"),
    ],
)
@pytest.mark.parametrize(
    "cursor",
    [
        "nope",
        "W10",
        "WzFd1",
        "WyJcdWQ4MDAiXQ",
        "WyJcdTAwMDAiXQ",
        "WzEsMiwzXQ",
        "Wy0xXQ",
        "W3RydWVd",
    ],
)
async def test_i15_what_is_no_cursor_is_refused(client: Client, path: str, cursor: str) -> None:
    refused = await client.get(f"{path}?cursor={cursor}")
    assert (refused.status, refused["place"]) == (422, "cursor")
