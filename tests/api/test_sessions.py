"""A browser signs in once and receives a session cookie for this server that expires."""

import asyncio
import time

import pytest

from headway.api.http.access import SESSION_S, Access, Scope, Token
from headway.api.routes import session
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

OPERATE = "operate-operate-operate"
READ = "read-read-read-read-read"
TOKENS = Access([Token(OPERATE, Scope.OPERATE), Token(READ, Scope.READ)])


class ClockAfterSessions:
    """A clock at which all current sessions have expired."""

    @staticmethod
    def time() -> float:
        return time.time() + SESSION_S


@pytest.fixture(autouse=True)
def _short_guess_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "GUESS_DELAY_S", 0.01)


async def sign_in(client: Client, token: str = READ) -> str:
    """Sign in, and return the cookie as a browser sends it back."""
    answer = await client.post("/api/session", {"token": token})
    assert answer.status == 204
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.proves("S2")
async def test_browser_signs_in_and_receives_a_session_cookie(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        refused = await client.post("/api/session", {"token": "nope"})
        assert (refused.status, refused["detail"]) == (401, "invalid token")
        assert "www-authenticate" in refused.headers
        answer = await client.post("/api/session", {"token": READ})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie
        session_cookie = cookie.partition(";")[0]
        assert (await client.get("/api/lanes", cookie=session_cookie)).status == 200
        assert (
            await client.call("PATCH", "/api/lanes/main", {}, cookie=session_cookie)
        ).status == 403
        name, _, value = session_cookie.partition("=")
        for forged in (value.replace("read", "operate"), value[:-1] + "x", "1.read.x.", "x", ""):
            assert (await client.get("/api/lanes", cookie=f"{name}={forged}")).status == 401


@pytest.mark.proves("S2")
async def test_session_expires(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.api.http.access.SESSION_S", -1)
    async with served(url, access=TOKENS) as client:
        cookie = await sign_in(client)
        assert (await client.get("/api/lanes", cookie=cookie)).status == 401


@pytest.mark.proves("S2")
async def test_session_ends_at_sign_out(url: str) -> None:
    """A copy of the cookie is refused too. The session of another browser continues."""
    async with served(url, access=TOKENS) as client:
        first, another = await sign_in(client), await sign_in(client)
        assert (await client.call("DELETE", "/api/session", cookie=first)).status == 204
        assert (await client.get("/api/lanes", cookie=first)).status == 401
        assert (await client.get("/api/lanes", cookie=another)).status == 200
        assert (await client.call("DELETE", "/api/session")).status == 204


@pytest.mark.proves("S2")
@pytest.mark.parametrize("is_signed_out", [True, False], ids=["signed out", "over"])
async def test_a_stream_ends_with_the_session_that_opened_it(
    url: str, monkeypatch: pytest.MonkeyPatch, is_signed_out: bool
) -> None:
    """The stream sends no further event. A stream that was opened with a token continues."""
    by_token = {"authorization": f"Bearer {OPERATE}"}
    async with served(url, access=TOKENS, sse_ping_interval_s=0.05) as client, asyncio.timeout(30):
        cookie, another = await sign_in(client), await sign_in(client)
        async with (
            client.open_stream("/api/events?after=0", cookie=cookie) as session_stream,
            client.open_stream("/api/events?after=0", cookie=cookie, **by_token) as token_stream,
        ):
            await client.post("/api/runs", {"job": "echo"}, **by_token)
            assert [(await anext(session_stream)).data["seq"] for _ in range(3)] == [1, 2, 3]
            if is_signed_out:
                assert (await client.call("DELETE", "/api/session", cookie=cookie)).status == 204
            else:
                monkeypatch.setattr("headway.api.http.access.time", ClockAfterSessions)
            await client.post("/api/runs", {"job": "echo"}, **by_token)
            assert [event async for event in session_stream] == []
            assert [(await anext(token_stream)).data["seq"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        assert (await client.get("/api/lanes", cookie=cookie)).status == 401
        status = 200 if is_signed_out else 401
        assert (await client.get("/api/lanes", cookie=another)).status == status


@pytest.mark.proves("S2")
async def test_idle_stream_ends_within_one_ping_interval_after_its_session_ends(
    url: str,
) -> None:
    async with served(url, access=TOKENS, sse_ping_interval_s=0.05) as client, asyncio.timeout(30):
        cookie = await sign_in(client)
        async with client.open_stream("/api/events?after=0", cookie=cookie) as stream:
            await client.call("DELETE", "/api/session", cookie=cookie)
            assert [event async for event in stream] == []


@pytest.mark.proves("S2")
@pytest.mark.parametrize("other", ['prefs={"a":[1,2]}', "=x", "x", "a b=c", "é=ü", ";;"])
async def test_cookies_of_other_programs_on_the_host_are_ignored(url: str, other: str) -> None:
    async with served(url, access=TOKENS) as client:
        cookie = await sign_in(client)
        for both in (f"{other}; {cookie}", f"{cookie}; {other}"):
            assert (await client.get("/api/lanes", cookie=both)).status == 200


@pytest.mark.proves("S2")
def test_servers_with_different_tokens_use_different_cookie_names() -> None:
    """Browsers share cookies among all ports of a host. Instances of one service share a name."""
    another = Access([Token("another-another-another", Scope.OPERATE)])
    same = Access([Token(READ, Scope.READ), Token(OPERATE, Scope.OPERATE)])
    assert another.cookie_name != TOKENS.cookie_name == same.cookie_name
    session_value = TOKENS.create_session("read")
    assert same.authenticate({}, session_value) == (Scope.READ, "session:read", session_value)
    assert another.authenticate({}, session_value) is None


@pytest.mark.proves("S2")
@pytest.mark.parametrize("now", [Token(READ, Scope.WORKER), Token(READ, Scope.READ, "ann")])
def test_session_ends_when_the_scope_or_name_of_its_token_changes(now: Token) -> None:
    before = Access([Token(READ, Scope.READ)])
    assert Access([now]).authenticate({}, before.create_session("read")) is None


@pytest.mark.proves("S2")
async def test_sign_in_is_refused_without_tokens(client: Client) -> None:
    answer = await client.post("/api/session", {"token": READ})
    assert (answer.status, answer["code"]) == (401, "unauthorized")
    assert "has no tokens" in answer["detail"]


@pytest.mark.proves("S2")
async def test_token_guesses_are_limited_without_blocking_valid_tokens(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GUESS_DELAY_S", 60.0)
    async with served(url, access=TOKENS) as client, asyncio.TaskGroup() as group:
        guesses = {
            group.create_task(client.post("/api/session", {"token": f"guess {n}"}))
            for n in range(session.GUESS_COUNT_MAX + 1)
        }
        (refused,), slow = await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
        answer = refused.result()
        assert (answer.status, answer["code"]) == (429, "too_many_guesses")
        assert answer.headers["retry-after"]
        await sign_in(client)
        headers = {"authorization": f"Bearer {READ}"}
        assert (await client.get("/api/lanes", **headers)).status == 200
        for guess in slow:
            guess.cancel()
