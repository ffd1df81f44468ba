"""The fast path for submissions answers before routing, and as the route itself would."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.api.application import build_application
from headway.api.http.access import Access
from headway.api.http.origin import Origins
from headway.api.http.request_guard import GuardMiddleware
from headway.api.routes.event_routes import encode_event
from headway.api.routes.metrics import Metrics
from headway.api.routes.submit_routes import SubmitFastPath
from headway.app import Headway
from headway.cli.client.in_process import LocalTransport
from headway.services.upkeep.event_feed import EventFeed
from tests.api.jobs import register

pytestmark = pytest.mark.backend("sqlite")

BODIES = [
    b'{"job":"stay","key":"ann"}',
    b'{"job":"stay","key":"ann","on_conflict":"enqueue","params":{}}',
    b'{"job":"fly"}',
    b'{"job":""}',
    b'{"job":5,"kee":"ann"}',
    b'{"job":"echo","timeout_s":-1}',
    b'{"job":"echo","params":{"shout":true}}',
    b'{"job":"echo","job":"stay"}',
    b'{"job":NaN}',
    b'{"job"',
    b'"echo"',
    b"[]",
    b"null",
    b"{}",
    b"",
    b'{"job":"echo","params":{"said":"\xff"}}',
]
VARYING_FIELDS = {"id", "key", "seq", "ready_seq", "active_run_id"} | {
    *("queued_at", "started_at", "updated_at", "run_deadline_at")
}


def comparable(fields: Any) -> Any:
    """Remove ids and times, and reduce the time limit to a flag."""
    compared = {name: value for name, value in fields.items() if name not in VARYING_FIELDS}
    return compared | {"has_time_limit": fields.get("run_deadline_at") is not None}


async def answers(url: str, body: bytes, *, is_fast_path: bool) -> list[tuple[int, Any]]:
    """Submit the same body twice, through the fast path or the route, and return the answers."""
    hw = Headway(url)
    register(hw)
    async with hw, EventFeed(hw.store, hw.store.events, pack=encode_event) as feed:
        guard = build_application(
            hw, feed, Metrics(), access=Access(()), origins=Origins(()), version="0"
        )
        first = guard._app
        assert isinstance(first, SubmitFastPath)
        app = (
            guard
            if is_fast_path
            else GuardMiddleware(first._app, access=Access(()), origins=Origins(()))
        )
        transport = LocalTransport(app, "here")
        responses = [await transport.request("POST", "/api/runs", body, {}) for _ in range(2)]
        answers = [(response.status, json.loads(response.body)) for response in responses]
        for _, run in reversed(answers):  # Otherwise the stop would wait for active jobs.
            if "status" in run and "id" in run:
                await hw.run(run["id"]).cancel()
    return [(status, comparable(answer)) for status, answer in answers]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("body", BODIES)
async def test_fast_path_and_regular_route_give_the_same_answers(
    tmp_path: Path, body: bytes
) -> None:
    ways = [
        await answers(f"sqlite:///{tmp_path}/{name}.db", body, is_fast_path=name == "fast")
        for name in ("fast", "routed")
    ]
    fast, routed = ways
    assert [code for code, _ in fast] == [code for code, _ in routed]
    assert [_without_messages(response) for response in fast] == [
        _without_messages(response) for response in routed
    ]


def _without_messages(response: tuple[int, Any]) -> Any:
    """Keep the code and the field of an error; its message may differ."""
    code, answer = response
    return answer if code < 400 else {name: answer.get(name) for name in ("code", "path")}
