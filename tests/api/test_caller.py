"""Changes are recorded with the kind and name of the token, never with the token itself (S4)."""

import json

import pytest

from headway.api.http.access import Access, Scope, Token
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

SECRET = "an-operators-own-token"


@pytest.mark.proves("S4")
async def test_canceled_run_records_the_kind_of_token_that_ended_it(url: str) -> None:
    access = Access([Token(SECRET, Scope.OPERATE)])
    async with served(url, access=access) as client:
        token = {"authorization": f"Bearer {SECRET}"}
        session = {"cookie": f"{access.cookie_name}={access.create_session('operate')}"}
        for headers, actor in (
            (token, "token:operate"),
            (session, "session:operate"),
            ({**session, **token}, "token:operate"),
            ({**session, "authorization": ""}, "session:operate"),
        ):
            run = await client.post("/api/runs", {"job": "stay"}, **headers)
            ended = await client.post(f"/api/runs/{run['id']}/cancel", {}, **headers)
            assert ended["run"]["cancel"]["by"] == actor
        events = await client.get("/api/events?after=0", **token)
        assert SECRET not in json.dumps(events.body)


@pytest.mark.proves("S4")
async def test_actor_is_the_name_of_the_token(url: str) -> None:
    """A session of the token has the same actor. The name of a token does not affect its scope."""
    access = Access(
        [
            Token(SECRET, Scope.OPERATE),
            Token("the-token-of-ann", Scope.OPERATE, "ann"),
            Token("the-token-of-bob", Scope.READ, "operate"),
        ]
    )
    async with served(url, access=access) as client:
        signed = await client.post("/api/session", {"token": "the-token-of-ann"})
        for headers, actor in (
            ({"authorization": f"Bearer {SECRET}"}, "token:operate"),
            ({"authorization": "Bearer the-token-of-ann"}, "token:operate:ann"),
            ({"cookie": signed.headers["set-cookie"].partition(";")[0]}, "session:operate:ann"),
        ):
            run = await client.post("/api/runs", {"job": "stay"}, **headers)
            ended = await client.post(f"/api/runs/{run['id']}/cancel", {}, **headers)
            assert ended["run"]["cancel"]["by"] == actor
        read_only = {"authorization": "Bearer the-token-of-bob"}
        assert (await client.post("/api/runs", {"job": "stay"}, **read_only)).status == 403


@pytest.mark.proves("S4")
async def test_event_of_a_change_names_its_actor(url: str) -> None:
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
        actors = [
            (event["type"], event["payload"]["by"]) for event in events if "by" in event["payload"]
        ]
    actor = "token:operate"
    assert actors == [
        ("lane_changed", actor),
        ("key_changed", actor),
        ("key_changed", actor),
        ("flow_changed", actor),
        ("flow_changed", actor),
        ("schedule_paused", actor),
        ("schedule_resumed", actor),
    ]


async def test_no_actor_is_recorded_without_tokens(url: str) -> None:
    async with served(url) as client:
        run_id = await client.submit("stay")
        ended = await client.post(f"/api/runs/{run_id}/cancel", {}, authorization="Bearer x")
        assert ended["run"]["cancel"]["by"] == ""
