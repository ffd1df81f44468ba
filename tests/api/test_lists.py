"""All lists are paged alike: the `cursor` of an answer is sent with the next request."""

from itertools import pairwise
from typing import Any

import pytest

from headway.core.json_encoder import encode_json
from tests.api.client import Client
from tests.api.test_flows import ASK, wait_until_waiting

pytestmark = pytest.mark.backend("sqlite")


async def read_pages(client: Client, path: str, member: str, *, limit: int = 2) -> list[list[Any]]:
    result: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = await client.get(f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
        assert answer.status == 200, answer
        result.append(answer[member])
        cursor = answer["cursor"]
    return result


async def test_flows_versions_and_tasks_are_listed_in_pages(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.call("PUT", f"/api/flows/{name}", ASK)
    flows = await read_pages(client, "/api/flows", "flows")
    assert [[flow["name"] for flow in page] for page in flows] == [["a", "b"], ["c"]]
    for node in ("x", "y", "z"):
        flow = {"start": node, "nodes": {node: {"kind": "choice"}}}
        await client.call("PUT", "/api/flows/a", flow)
    versions = await read_pages(client, "/api/flows/a/versions", "versions")
    assert [[version["version"] for version in page] for page in versions] == [[4, 3], [2, 1]]
    ids = [(await client.post("/api/flows/b/tasks", {}))["id"] for _ in range(5)]
    for task_id in ids:
        await wait_until_waiting(client, task_id, "approval")
    tasks = await read_pages(client, "/api/tasks", "tasks")
    assert [len(page) for page in tasks] == [2, 2, 1]
    assert sorted(task["id"] for page in tasks for task in page) == sorted(ids)


@pytest.mark.proves("I20")
async def test_pages_of_tasks_and_node_runs_are_limited_in_bytes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items that did not fit are on the next page (R5.10)."""
    keys = [f"n{at}" for at in range(4)]
    node = {"kind": "choice", "prep": {"input_key": "$params.text"}}
    edges = [{"from": key, "to": next_key} for key, next_key in pairwise(keys)]
    flow = {"start": "n0", "nodes": dict.fromkeys(keys, node), "edges": edges}
    await client.call("PUT", "/api/flows/large", flow)
    params = {"text": "ä" * 10_000}
    ids = [
        (await client.post("/api/flows/large/tasks", {"params": params}))["id"] for _ in range(3)
    ]
    for task_id in ids:
        await client.hw.run(task_id).wait_for_end()
    path = f"/api/tasks/{ids[0]}/node-runs"
    whole = await client.get(f"{path}?limit=4")
    assert ([row["node"] for row in whole["node_runs"]], whole["has_more"]) == (keys, False)
    assert (await client.get(f"{path}?limit=3"))["has_more"] is True
    sizes = [len(encode_json(row).encode()) for row in whole["node_runs"]]
    for room, counts in ((1, [1, 1, 1, 1]), (sum(sizes[:3]), [3, 1]), (sum(sizes[:3]) - 1, [2, 2])):
        monkeypatch.setattr("headway.api.http.cursor.PAGE_BYTE_COUNT_MAX", room)
        rows = [await client.get(path)]
        while rows[-1]["has_more"]:
            rows.append(await client.get(f"{path}?after={rows[-1]['node_runs'][-1]['seq']}"))
        assert [len(page["node_runs"]) for page in rows] == counts
        assert [row["seq"] for page in rows for row in page["node_runs"]] == [1, 2, 3, 4]
    monkeypatch.setattr("headway.api.http.cursor.PAGE_BYTE_COUNT_MAX", 1)
    tasks = await read_pages(client, "/api/tasks", "tasks")
    assert [[task["id"] for task in page] for page in tasks] == [[id_] for id_ in reversed(ids)]


@pytest.mark.proves("I20")
async def test_pages_of_runs_keys_and_interrupts_are_limited_in_bytes(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader cannot make the server hold all documents in memory at once (I16, I19)."""
    keys = ["ann", "bob", "cem"]
    for key in keys:
        saved = {"job": "echo", "params": {"said": "ä" * 10_000}}
        await client.call("PUT", f"/api/keys/{key}", saved)
        await client.wait_for_event(await client.submit("ask", key=key), "permission_request")
    for member in ("runs", "keys", "interrupts"):
        path = f"/api/{member}"
        whole = (await client.get(path))[member]
        assert sorted(item["key"] for item in whole) == keys
        sizes = [len(encode_json(item).encode()) for item in whole]
        for room, counts in ((1, [1, 1, 1]), (sum(sizes[:2]), [2, 1]), (sum(sizes), [3])):
            monkeypatch.setattr("headway.api.http.cursor.PAGE_BYTE_COUNT_MAX", room)
            listed = await read_pages(client, path, member, limit=3)
            assert [len(page) for page in listed] == counts, member
            assert [item for page in listed for item in page] == whole
        monkeypatch.undo()


async def test_saved_keys_are_listed_in_pages(client: Client) -> None:
    keys = ["a", "b/ä", "c d"]
    for key in keys:
        await client.call("PUT", f"/api/keys/{key}", {"job": "echo"})
    rows = await read_pages(client, "/api/keys", "keys")
    assert [row["key"] for page in rows for row in page] == keys


@pytest.mark.proves("I15")
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
async def test_invalid_cursor_is_refused(client: Client, path: str, cursor: str) -> None:
    refused = await client.get(f"{path}?cursor={cursor}")
    assert (refused.status, refused["path"]) == (422, "cursor")
