"""`If-Match` follows the rules of HTTP for lanes, keys, flows and schedules."""

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.conftest import served
from tests.api.test_flows import ASK

pytestmark = pytest.mark.backend("sqlite")

OTHER = {"start": "a", "nodes": {"a": {"kind": "choice"}}}
CHANGES = [
    ("PATCH", "/api/lanes/narrow", {"max_concurrent": 1}, {"max_concurrent": 2}),
    ("PUT", "/api/keys/ann", {"job": "echo"}, {"job": "stay"}),
    ("PUT", "/api/flows/asks", ASK, OTHER),
]


@pytest.mark.parametrize(("method", "path", "first", "second"), CHANGES)
async def test_change_is_made_only_if_the_revision_matches(
    client: Client, method: str, path: str, first: Any, second: Any
) -> None:
    missing = await client.call(method, path, first, If_Match="*")
    assert (missing.status, missing["code"], missing["revision"]) == (412, "revision_conflict", 0)
    created = await client.call(method, path, first)
    assert (await client.get(path)).headers["etag"] == created.headers["etag"] == '"1"'
    for tag in ('W/"1"', '"9"', '"nine"', '"8", "9"', 'W/"1", "9"'):
        unmet = await client.call(method, path, second, If_Match=tag)
        assert (unmet.status, unmet["revision"]) == (412, 1), tag
    changed = await client.call(method, path, second, If_Match='"1", "9"')
    assert (changed.status < 300, changed.headers["etag"]) == (True, '"2"')
    assert (await client.call(method, path, first, If_Match="*")).headers["etag"] == '"3"'
    assert (await client.call(method, path, second, If_Match="3")).headers["etag"] == '"4"'
    for value in ("one", '"1', "W/1", "*, *"):
        refused = await client.call(method, path, second, If_Match=value)
        assert (refused.status, refused["path"]) == (422, "If-Match"), value
    assert (await client.get(path)).headers["etag"] == '"4"'


async def test_schedule_is_changed_only_if_the_revision_matches(url: str) -> None:
    path = "/api/schedules/yearly"

    async def read_revision(client: Client) -> Any:
        (schedule,) = (await client.get("/api/schedules"))["schedules"]
        return schedule["revision"], schedule["paused"]

    async with served(url, has_schedule=True) as client:
        paused = await client.call("PATCH", path, {"paused": True})
        revision, _ = await read_revision(client)
        assert paused.headers["etag"] == f'"{revision}"'
        for tag in ('W/"1"', '"99"', '"98", "99"'):
            unmet = await client.call("PATCH", path, {"paused": False}, If_Match=tag)
            assert (unmet.status, unmet["revision"]) == (412, revision), tag
        assert await read_revision(client) == (revision, True)
        for tag in (f'"{revision}"', "*"):
            resumed = await client.call("PATCH", path, {"paused": False}, If_Match=tag)
            assert (resumed.status, resumed["paused"]) == (200, False)
        assert await read_revision(client) == (revision + 1, False)


async def test_single_saved_key_is_read(client: Client) -> None:
    await client.call("PUT", "/api/keys/a/b", {"job": "echo", "params": {"said": 1}})
    row = await client.get("/api/keys/a/b")
    assert (row.status, row["key"], row["params"]) == (200, "a/b", {"said": 1})
    missing = await client.get("/api/keys/none")
    assert (missing.status, missing["code"]) == (404, "key_not_found")


async def test_lane_that_was_never_changed_has_revision_zero(client: Client) -> None:
    lane = await client.get("/api/lanes/main")
    assert (lane.status, lane.headers["etag"]) == (200, '"0"')
    paused = await client.call("PATCH", "/api/lanes/main", {"paused": True}, If_Match="*")
    assert (paused.status, paused["paused"]) == (200, True)
