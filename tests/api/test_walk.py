"""Every route there is, with every method and every kind of token: nothing opens by itself (S2)."""

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
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
# Said here once more, and not taken from the guard: what is open is a promise.
OPEN = {"/healthz", "/readyz", "/api/session", "/", "/ui", "/ui/", "/ui/x"}
OF_WORKERS = {"/register", "/heartbeat", "/workers/register", "/workers/heartbeat"}
NOT_IN_THE_DOCUMENT = {"/docs", "/openapi.json", "/events.js"}


def paths(routes: Iterable[Any]) -> Iterator[str]:
    """The path of each route, with something in the place of what it leaves open."""
    for route in routes:
        if isinstance(route, Mount):
            yield from (route.path, f"{route.path}/", f"{route.path}/x")
        elif isinstance(route, Route):
            yield re.sub(r"\{(\w+)(?::\w+)?\}", r"\1", route.path)
        else:  # Routes that were included together.
            yield from paths(route.original_router.routes)


async def all_paths(client: Client) -> list[str]:
    async with EventFeed(client.hw.store, client.hw.store.events, pack=encode_event) as feed:
        app = build_routes(client.hw, feed, Metrics(), access=TOKENS, is_secure=False, version="0")
    found = sorted(set(paths(app.routes)))
    document = {path.replace("{", "").replace("}", "") for path in app.openapi()["paths"]}
    assert set(found) >= document | NOT_IN_THE_DOCUMENT | OF_WORKERS | {"/healthz", "/"}
    return found


def allowed(scope: Scope | None, method: str, path: str) -> int | None:
    """How the guard must answer, by who asks; None: it must let the request through."""
    if path in OPEN:
        return None
    if scope is None:
        return 401
    if scope is Scope.OPERATE:
        return None
    if path in OF_WORKERS:
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
async def test_every_route_and_method_wants_its_scope(
    url: str, token: str | None, scope: Scope | None
) -> None:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with served(url, access=TOKENS) as client:
        for path in await all_paths(client):
            for method in METHODS:
                answer = await client.call(method, path, **headers)
                wanted = allowed(scope, method, path)
                if wanted is None:
                    is_sign_in = (method, path) == ("POST", "/api/session")
                    assert is_sign_in or answer.status not in (401, 403), (method, path)
                else:
                    assert answer.status == wanted, (method, path)
                if scope is None and answer.status < 300:
                    assert path in OPEN, (method, path)


@pytest.mark.proves("S2")
@pytest.mark.parametrize("said", ["Basic !", "Basic Og==", "Bearer", "Bearer ", "Digest x", "x"])
async def test_what_cannot_be_read_as_a_token_is_none(url: str, said: str) -> None:
    async with served(url, access=TOKENS) as client:
        answer = await client.get("/api/lanes", authorization=said)
        assert (answer.status, answer["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.proves("S2")
async def test_a_worker_may_say_that_it_is_there_and_nothing_else(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        headers = {"authorization": f"Bearer {WORKER}"}
        said = {"id": "w1", "url": "http://127.0.0.1:1", "services": ["upper"]}
        for path in ("/register", "/workers/register", "/heartbeat", "/workers/heartbeat"):
            assert (await client.post(path, said, **headers)).status == 200, path
        for path in ("/workers/list", "/list", "/workers/allocate", "/allocate", "/api/workers"):
            assert (await client.get(path, **headers)).status == 403, path


async def test_head_is_answered_wherever_get_is(url: str) -> None:
    async with served(url) as client:
        for path in ("/healthz", "/readyz", "/api/lanes", "/openapi.json", "/metrics"):
            got, head = await client.get(path), await client.call("HEAD", path)
            assert (head.status, head.body) == (200, ""), path
            assert head.headers["content-type"] == got.headers["content-type"]
        assert (await client.call("HEAD", "/api/runs/x")).status == 404
        refused = await client.post("/api/lanes", {})
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_head_of_a_stream_ends(url: str) -> None:
    async with served(url) as client:
        head = await client.call("HEAD", "/api/events", accept="text/event-stream")
        assert (head.status, head.body) == (200, "")
        assert head.headers["content-type"].startswith("text/event-stream")
        metrics = (await client.get("/metrics")).body
        assert "headway_event_streams 0.0" in metrics
