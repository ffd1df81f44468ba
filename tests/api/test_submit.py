"""A submission is answered before any routing, and in the same words as its route would."""

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
from headway.api.routes.submit_fast_path import SubmitFastPath
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
OF_THE_RUN = {"id", "key", "seq", "ready_seq", "active_run_id"} | {
    *("queued_at", "started_at", "updated_at", "run_deadline_at")
}


def comparable(told: Any) -> Any:
    """Without ids and times; of the time limit remains whether there is one."""
    kept = {name: value for name, value in told.items() if name not in OF_THE_RUN}
    return kept | {"has_time_limit": told.get("run_deadline_at") is not None}


async def answers(url: str, body: bytes, *, is_first: bool) -> list[tuple[int, Any]]:
    """What is answered to the same body twice, with routing or without."""
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
            if is_first
            else GuardMiddleware(first._app, access=Access(()), origins=Origins(()))
        )
        transport = LocalTransport(app, "here")
        told = [await transport.request("POST", "/api/runs", body, {}) for _ in range(2)]
    return [(one.status, comparable(json.loads(one.body))) for one in told]


@pytest.mark.proves("I15")
@pytest.mark.parametrize("body", BODIES)
async def test_both_ways_accept_and_refuse_alike(tmp_path: Path, body: bytes) -> None:
    ways = [
        await answers(f"sqlite:///{tmp_path}/{name}.db", body, is_first=name == "first")
        for name in ("first", "routed")
    ]
    first, routed = ways
    assert [code for code, _ in first] == [code for code, _ in routed]
    assert [_without_words(told) for told in first] == [_without_words(told) for told in routed]


def _without_words(told: tuple[int, Any]) -> Any:
    """The place of each fault is a promise, and its words are not."""
    code, answer = told
    return answer if code < 400 else {name: answer.get(name) for name in ("code", "place")}
