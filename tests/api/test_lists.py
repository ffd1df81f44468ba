"""Lists go page by page, in one manner: `cursor` in the answer, `cursor` in the next question."""

from itertools import pairwise
from typing import Any

import pytest

from headway.api.wire.flow_bodies import encode_json
from tests.api.client import Client
from tests.api.test_flows import ASK, waiting

pytestmark = pytest.mark.backend("sqlite")


async def pages(client: Client, path: str, member: str, *, limit: int = 2) -> list[list[Any]]:
    found: list[list[Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = await client.get(f"{path}?limit={limit}" + (f"&cursor={cursor}" if cursor else ""))
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


@pytest.mark.proves("I20")
async def test_pages_of_tasks_and_node_runs_end_where_they_would_be_too_large(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5.10: and what found no room is in the next one."""
    keys = [f"n{at}" for at in range(4)]
    node = {"kind": "choice", "prep": {"input_key": "$params.text"}}
    edges = [{"from": one, "to": other} for one, other in pairwise(keys)]
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
    tasks = await pages(client, "/api/tasks", "tasks")
    assert [[one["id"] for one in page] for page in tasks] == [[one] for one in reversed(ids)]


@pytest.mark.proves("I20")
async def test_pages_of_runs_keys_and_questions_end_where_they_would_be_too_large(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I16, I19: whoever may read cannot make the server hold all documents at once."""
    keys = ["ann", "bob", "cem"]
    for key in keys:
        saved = {"job": "echo", "params": {"said": "ä" * 10_000}}
        await client.call("PUT", f"/api/keys/{key}", saved)
        await client.told(await client.submitted("ask", key=key), "permission_request")
    for member in ("runs", "keys", "interrupts"):
        path = f"/api/{member}"
        whole = (await client.get(path))[member]
        assert sorted(one["key"] for one in whole) == keys
        sizes = [len(encode_json(one).encode()) for one in whole]
        for room, counts in ((1, [1, 1, 1]), (sum(sizes[:2]), [2, 1]), (sum(sizes), [3])):
            monkeypatch.setattr("headway.api.http.cursor.PAGE_BYTE_COUNT_MAX", room)
            found = await pages(client, path, member, limit=3)
            assert [len(page) for page in found] == counts, member
            assert [one for page in found for one in page] == whole
        monkeypatch.undo()


async def test_saved_rows_are_listed_page_by_page(client: Client) -> None:
    keys = ["a", "b/ä", "c d"]
    for key in keys:
        await client.call("PUT", f"/api/keys/{key}", {"job": "echo"})
    rows = await pages(client, "/api/keys", "keys")
    assert [one["key"] for page in rows for one in page] == keys


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
async def test_what_is_no_cursor_is_refused(client: Client, path: str, cursor: str) -> None:
    refused = await client.get(f"{path}?cursor={cursor}")
    assert (refused.status, refused["place"]) == (422, "cursor")
