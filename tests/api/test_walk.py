"""Every route is called with every method and every kind of token (S2)."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from starlette.routing import Mount, Route

from headway.api.application import build_routes
from headway.api.http.access import Access, Scope, Token
from headway.api.routes.event_routes import encode_event
from headway.api.routes.metrics import Metrics
from headway.services.upkeep.event_feed import EventFeed
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

OPERATE = "operate-operate-operate"
READ = "read-read-read-read-read"
WORKER = "worker-worker-worker"
WRONG = "wrong-wrong-wrong-wrong"
TOKENS = Access(
    [Token(OPERATE, Scope.OPERATE), Token(READ, Scope.READ), Token(WORKER, Scope.WORKER)]
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
# Listed again instead of imported from the guard, because the open paths are a promise.
OPEN = {"/healthz", "/readyz", "/api/session", "/", "/ui", "/ui/", "/ui/x"}
WORKER_PATHS = {"/register", "/heartbeat", "/workers/register", "/workers/heartbeat"}
NOT_IN_THE_DOCUMENT = {"/docs", "/openapi.json", "/events.js"}


def paths(routes: Iterable[Any]) -> Iterator[str]:
    """Yield the path of each route, with its parameters replaced by their names."""
    for route in routes:
        if isinstance(route, Mount):
            yield from (route.path, f"{route.path}/", f"{route.path}/x")
        elif isinstance(route, Route):
            yield re.sub(r"\{(\w+)(?::\w+)?\}", r"\1", route.path)
        else:  # An included router.
            yield from paths(route.original_router.routes)


async def all_paths(client: Client) -> list[str]:
    async with EventFeed(client.hw.store, client.hw.store.events, pack=encode_event) as feed:
        app = build_routes(client.hw, feed, Metrics(), access=TOKENS, is_secure=False, version="0")
    route_paths = sorted(set(paths(app.routes)))
    document = {path.replace("{", "").replace("}", "") for path in app.openapi()["paths"]}
    assert set(route_paths) >= document | NOT_IN_THE_DOCUMENT | WORKER_PATHS | {"/healthz", "/"}
    return route_paths


def expected_refusal(scope: Scope | None, method: str, path: str) -> int | None:
    """Return the status of the guard for this scope, or None if it must pass the request on."""
    if path in OPEN:
        return None
    if scope is None:
        return 401
    if scope is Scope.OPERATE:
        return None
    if path in WORKER_PATHS:
        return None if scope is Scope.WORKER else 403
    return None if scope is Scope.READ and method in ("GET", "HEAD") else 403


@pytest.mark.proves("S2")
@pytest.mark.parametrize(
    ("token", "scope"),
    [
        (None, None),
        (WRONG, None),
        (WORKER, Scope.WORKER),
        (READ, Scope.READ),
        (OPERATE, Scope.OPERATE),
    ],
    ids=["none", "wrong", "worker", "read", "operate"],
)
async def test_every_route_and_method_requires_its_scope(
    url: str, token: str | None, scope: Scope | None
) -> None:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with served(url, access=TOKENS) as client:
        for path in await all_paths(client):
            for method in METHODS:
                answer = await client.call(method, path, **headers)
                expected = expected_refusal(scope, method, path)
                if expected is None:
                    is_sign_in = (method, path) == ("POST", "/api/session")
                    assert is_sign_in or answer.status not in (401, 403), (method, path)
                else:
                    assert answer.status == expected, (method, path)
                if scope is None and answer.status < 300:
                    assert path in OPEN, (method, path)


@pytest.mark.proves("S2")
@pytest.mark.parametrize("header", ["Basic !", "Basic Og==", "Bearer", "Bearer ", "Digest x", "x"])
async def test_unreadable_authorization_header_is_401(url: str, header: str) -> None:
    async with served(url, access=TOKENS) as client:
        answer = await client.get("/api/lanes", authorization=header)
        assert (answer.status, answer["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.proves("S2")
async def test_worker_token_may_only_register_and_send_heartbeats(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        headers = {"authorization": f"Bearer {WORKER}"}
        worker = {"id": "w1", "url": "http://127.0.0.1:1", "services": ["upper"]}
        for path in ("/register", "/workers/register", "/heartbeat", "/workers/heartbeat"):
            assert (await client.post(path, worker, **headers)).status == 200, path
        for path in ("/workers/list", "/list", "/workers/allocate", "/allocate", "/api/workers"):
            assert (await client.get(path, **headers)).status == 403, path


async def test_head_request_is_answered_for_every_get_route(url: str) -> None:
    async with served(url) as client:
        for path in ("/healthz", "/readyz", "/api/lanes", "/openapi.json", "/metrics"):
            got, head = await client.get(path), await client.call("HEAD", path)
            assert (head.status, head.body) == (200, ""), path
            assert head.headers["content-type"] == got.headers["content-type"]
        assert (await client.call("HEAD", "/api/runs/x")).status == 404
        refused = await client.post("/api/lanes", {})
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_head_request_for_a_stream_ends_and_leaves_no_stream_open(url: str) -> None:
    async with served(url) as client:
        head = await client.call("HEAD", "/api/events", accept="text/event-stream")
        assert (head.status, head.body) == (200, "")
        assert head.headers["content-type"].startswith("text/event-stream")
        metrics = (await client.get("/metrics")).body
        assert "headway_event_streams 0.0" in metrics
