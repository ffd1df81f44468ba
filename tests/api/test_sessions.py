"""A browser signs in once: what it keeps is good for a while, for this server, and not for ever."""

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


class AfterASession:
    """The clock, when all sessions of now are over."""

    @staticmethod
    def time() -> float:
        return time.time() + SESSION_S


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "GUESS_DELAY_S", 0.01)


async def signed_in(client: Client, token: str = READ) -> str:
    """The cookie, as a browser sends it back."""
    answer = await client.post("/api/session", {"token": token})
    assert answer.status == 204
    return answer.headers["set-cookie"].partition(";")[0]


@pytest.mark.proves("S2")
async def test_a_browser_signs_in_once_and_keeps_a_cookie(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        refused = await client.post("/api/session", {"token": "nope"})
        assert (refused.status, refused["detail"]) == (401, "there is no such token")
        assert "www-authenticate" in refused.headers
        answer = await client.post("/api/session", {"token": READ})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie
        kept = cookie.partition(";")[0]
        assert (await client.get("/api/lanes", cookie=kept)).status == 200
        assert (await client.call("PATCH", "/api/lanes/main", {}, cookie=kept)).status == 403
        name, _, value = kept.partition("=")
        for forged in (value.replace("read", "operate"), value[:-1] + "x", "1.read.x.", "x", ""):
            assert (await client.get("/api/lanes", cookie=f"{name}={forged}")).status == 401


@pytest.mark.proves("S2")
async def test_a_session_is_over_after_its_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.api.http.access.SESSION_S", -1)
    async with served(url, access=TOKENS) as client:
        cookie = await signed_in(client)
        assert (await client.get("/api/lanes", cookie=cookie)).status == 401


@pytest.mark.proves("S2")
async def test_who_signs_out_has_no_session_any_more(url: str) -> None:
    """Also whoever has kept a copy of it. Another browser has one of its own."""
    async with served(url, access=TOKENS) as client:
        ours, another = await signed_in(client), await signed_in(client)
        assert (await client.call("DELETE", "/api/session", cookie=ours)).status == 204
        assert (await client.get("/api/lanes", cookie=ours)).status == 401
        assert (await client.get("/api/lanes", cookie=another)).status == 200
        assert (await client.call("DELETE", "/api/session")).status == 204


@pytest.mark.proves("S2")
@pytest.mark.parametrize("is_signed_out", [True, False], ids=["signed out", "over"])
async def test_a_stream_ends_with_the_session_that_opened_it(
    url: str, monkeypatch: pytest.MonkeyPatch, is_signed_out: bool
) -> None:
    """Within a ping, and before anything more is told. One with a token goes on."""
    by_token = {"authorization": f"Bearer {OPERATE}"}
    async with served(url, access=TOKENS, sse_ping_interval_s=0.05) as client, asyncio.timeout(30):
        cookie, another = await signed_in(client), await signed_in(client)
        async with (
            client.streamed("/api/events?after=0", cookie=cookie) as ours,
            client.streamed("/api/events?after=0", cookie=cookie, **by_token) as theirs,
        ):
            await client.post("/api/runs", {"job": "echo"}, **by_token)
            assert [(await anext(ours)).data["seq"] for _ in range(3)] == [1, 2, 3]
            if is_signed_out:
                assert (await client.call("DELETE", "/api/session", cookie=cookie)).status == 204
            else:
                monkeypatch.setattr("headway.api.http.access.time", AfterASession)
            await client.post("/api/runs", {"job": "echo"}, **by_token)
            assert [event async for event in ours] == []
            assert [(await anext(theirs)).data["seq"] for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        assert (await client.get("/api/lanes", cookie=cookie)).status == 401
        status = 200 if is_signed_out else 401
        assert (await client.get("/api/lanes", cookie=another)).status == status


@pytest.mark.proves("S2")
async def test_a_silent_stream_ends_with_its_session_within_a_ping(
    url: str,
) -> None:
    async with served(url, access=TOKENS, sse_ping_interval_s=0.05) as client, asyncio.timeout(30):
        cookie = await signed_in(client)
        async with client.streamed("/api/events?after=0", cookie=cookie) as stream:
            await client.call("DELETE", "/api/session", cookie=cookie)
            assert [event async for event in stream] == []


@pytest.mark.proves("S2")
@pytest.mark.parametrize("other", ['prefs={"a":[1,2]}', "=x", "x", "a b=c", "é=ü", ";;"])
async def test_cookies_of_other_programs_on_this_host_are_not_in_the_way(
    url: str, other: str
) -> None:
    async with served(url, access=TOKENS) as client:
        cookie = await signed_in(client)
        for both in (f"{other}; {cookie}", f"{cookie}; {other}"):
            assert (await client.get("/api/lanes", cookie=both)).status == 200


@pytest.mark.proves("S2")
def test_servers_with_other_tokens_keep_cookies_of_other_names() -> None:
    """A browser has one place for all ports of a host; instances of one service share theirs."""
    another = Access([Token("another-another-another", Scope.OPERATE)])
    same = Access([Token(READ, Scope.READ), Token(OPERATE, Scope.OPERATE)])
    assert another.cookie_name != TOKENS.cookie_name == same.cookie_name
    kept = TOKENS.create_session("read")
    assert same.authenticate({}, kept) == (Scope.READ, "session:read", kept)
    assert another.authenticate({}, kept) is None


@pytest.mark.proves("S2")
@pytest.mark.parametrize("now", [Token(READ, Scope.WORKER), Token(READ, Scope.READ, "ann")])
def test_a_session_ends_when_its_token_means_something_else(now: Token) -> None:
    before = Access([Token(READ, Scope.READ)])
    assert Access([now]).authenticate({}, before.create_session("read")) is None


@pytest.mark.proves("S2")
async def test_where_no_token_is_set_nobody_signs_in(client: Client) -> None:
    answer = await client.post("/api/session", {"token": READ})
    assert (answer.status, answer["code"]) == (401, "unauthorized")
    assert "no token is set" in answer["detail"]


@pytest.mark.proves("S2")
async def test_tokens_cannot_be_guessed_quickly_and_who_has_one_is_not_kept_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "GUESS_DELAY_S", 60.0)
    async with served(url, access=TOKENS) as client, asyncio.TaskGroup() as group:
        guesses = {
            group.create_task(client.post("/api/session", {"token": f"guess {n}"}))
            for n in range(session.GUESS_COUNT_MAX + 1)
        }
        (told,), slow = await asyncio.wait(guesses, return_when=asyncio.FIRST_COMPLETED)
        answer = told.result()
        assert (answer.status, answer["code"]) == (429, "too_many_guesses")
        assert answer.headers["retry-after"]
        await signed_in(client)
        said = {"authorization": f"Bearer {READ}"}
        assert (await client.get("/api/lanes", **said)).status == 200
        for guess in slow:
            guess.cancel()
