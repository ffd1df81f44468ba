"""Who did it is kept with what was done: the kind of token, and never the token (S4)."""

import json

import pytest

from headway.api.http.access import Access, Scope, Token
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

SECRET = "an-operators-own-token"


@pytest.mark.proves("S4")
async def test_a_run_knows_by_what_kind_of_token_it_was_ended(url: str) -> None:
    access = Access([Token(SECRET, Scope.OPERATE)])
    async with served(url, access=access) as client:
        token = {"authorization": f"Bearer {SECRET}"}
        session = {"cookie": f"{access.cookie_name}={access.create_session('operate')}"}
        for headers, by in (
            (token, "token:operate"),
            (session, "session:operate"),
            ({**session, **token}, "token:operate"),
            ({**session, "authorization": ""}, "session:operate"),
        ):
            run = await client.post("/api/runs", {"job": "stay"}, **headers)
            ended = await client.post(f"/api/runs/{run['id']}/cancel", {}, **headers)
            assert ended["run"]["cancel"]["by"] == by
        events = await client.get("/api/events?after=0", **token)
        assert SECRET not in json.dumps(events.body)


@pytest.mark.proves("S4")
async def test_tokens_that_have_names_are_told_apart(url: str) -> None:
    """Also once they were given for a session. The names say nothing of what may be done."""
    access = Access(
        [
            Token(SECRET, Scope.OPERATE),
            Token("the-token-of-ann", Scope.OPERATE, "ann"),
            Token("the-token-of-bob", Scope.READ, "operate"),
        ]
    )
    async with served(url, access=access) as client:
        signed = await client.post("/api/session", {"token": "the-token-of-ann"})
        for headers, by in (
            ({"authorization": f"Bearer {SECRET}"}, "token:operate"),
            ({"authorization": "Bearer the-token-of-ann"}, "token:operate:ann"),
            ({"cookie": signed.headers["set-cookie"].partition(";")[0]}, "session:operate:ann"),
        ):
            run = await client.post("/api/runs", {"job": "stay"}, **headers)
            ended = await client.post(f"/api/runs/{run['id']}/cancel", {}, **headers)
            assert ended["run"]["cancel"]["by"] == by
        theirs = {"authorization": "Bearer the-token-of-bob"}
        assert (await client.post("/api/runs", {"job": "stay"}, **theirs)).status == 403


@pytest.mark.proves("S4")
async def test_whoever_changes_something_is_named_in_its_event(url: str) -> None:
    access = Access([Token(SECRET, Scope.OPERATE)])
    flow = {"start": "a", "nodes": {"a": {"kind": "choice"}}}
    async with served(url, access=access, has_schedule=True) as client:
        token = {"authorization": f"Bearer {SECRET}"}
        for method, path, body in (
            ("PATCH", "/api/lanes/bulk", {"paused": True}),
            ("PUT", "/api/keys/alice", {"job": "stay"}),
            ("DELETE", "/api/keys/alice", None),
            ("PUT", "/api/flows/short", flow),
            ("POST", "/flows", {"Name": "old"}),
            ("PATCH", "/api/schedules/yearly", {"paused": True}),
            ("PATCH", "/api/schedules/yearly", {"paused": False}),
        ):
            answer = await client.call(method, path, body, **token)
            assert answer.status < 300, (path, answer.body)
        events = (await client.get("/api/events?after=0", **token)).body["events"]
        told = [(one["type"], one["payload"]["by"]) for one in events if "by" in one["payload"]]
    by = "token:operate"
    assert told == [
        ("lane_changed", by),
        ("key_changed", by),
        ("key_changed", by),
        ("flow_changed", by),
        ("flow_changed", by),
        ("schedule_paused", by),
        ("schedule_resumed", by),
    ]


async def test_where_everybody_may_do_everything_nobody_is_named(url: str) -> None:
    async with served(url) as client:
        run_id = await client.submitted("stay")
        ended = await client.post(f"/api/runs/{run_id}/cancel", {}, authorization="Bearer x")
        assert ended["run"]["cancel"]["by"] == ""
