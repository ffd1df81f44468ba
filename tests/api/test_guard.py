"""The guard refuses requests without a token, of other origins and with bad bodies (S1-S9)."""

import asyncio
import base64
from typing import Any

import pytest
from multidict import CIMultiDict

from headway.api.http.access import Access, Scope, Token
from headway.api.server import check_exposure, serve
from headway.app import Headway
from headway.core.errors import ConfigurationError
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")

OPERATE = "operate-operate-operate"
READ = "read-read-read-read-read"
WORKER = "worker-worker-worker"
TOKENS = Access(
    [Token(OPERATE, Scope.OPERATE), Token(READ, Scope.READ), Token(WORKER, Scope.WORKER)]
)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.proves("S2")
async def test_unknown_path_or_method_without_a_token_is_401(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        for method in ("GET", "PUT", "OPTIONS", "TRACE", "PROPFIND"):
            assert (await client.call(method, "/api/nope")).status == 401


@pytest.mark.proves("S2")
async def test_basic_authentication_with_the_token_as_password_is_accepted(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        credentials = base64.b64encode(f"user:{READ}".encode()).decode()
        assert (await client.get("/api/lanes", authorization=f"Basic {credentials}")).status == 200


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_page_of_another_origin_is_refused(
    client: Client, method: str, headers: dict[str, str]
) -> None:
    for path in ("/api/events", "/api/runs", "/healthz"):
        answer = await client.call(method, path, accept="text/event-stream", **headers)
        assert (answer.status, answer["code"]) == (403, "cross_origin")


@pytest.mark.proves("S3")
async def test_page_of_the_same_origin_is_not_refused(client: Client) -> None:
    ours = {"origin": client.address, "sec_fetch_site": "same-origin"}
    assert (await client.get("/api/lanes", **ours)).status == 200


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8070", "", "127.0.0.1.nip.io", "x@localhost",
        "localhost/evil", "localhost:80:80", "localhost:x", "localhost?", "[::1", "::1",
    ],
)  # fmt: skip
async def test_a_wrong_host_is_refused(client: Client, host: str) -> None:
    answer = await client.get("/api/lanes", host=host)
    assert answer.status in (400, 421)


@pytest.mark.proves("S3")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:8070", "[::1]"])
async def test_every_loopback_host_name_is_accepted(client: Client, host: str) -> None:
    assert (await client.get("/api/lanes", host=host)).status == 200


LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


@pytest.mark.proves("S3")
@pytest.mark.parametrize(
    ("method", "path", "changed", "is_refused"),
    [
        ("GET", "/", {}, False),
        ("GET", "/ui/", {}, False),
        ("HEAD", "/ui/", {}, False),
        ("POST", "/ui/", {}, True),
        ("GET", "/ui/", {"sec_fetch_dest": "iframe"}, True),
        ("GET", "/ui/", {"sec_fetch_mode": "no-cors"}, True),
        ("GET", "/ui/", {"origin": "http://evil.example"}, True),
        ("GET", "/docs", {}, True),
        ("GET", "/api/state", {}, True),
        ("GET", "/uix", {}, True),
    ],
)
async def test_only_links_to_the_page_may_come_from_another_site(
    client: Client, method: str, path: str, changed: dict[str, str], is_refused: bool
) -> None:
    answer = await client.call(method, path, **{**LINK, **changed})
    assert (answer.status == 403) == is_refused


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Last-Event-ID"),
        *("Origin", "Sec-Fetch-Site"),
    ],
)
async def test_repeated_header_with_a_single_value_is_refused(client: Client, name: str) -> None:
    for values in (("1", "2"), ("1", "1")):
        twice = CIMultiDict([(name, value) for value in values])
        answer = await client.send("POST", "/api/runs", b'{"job":"echo"}', twice)
        assert (answer.status, answer["code"]) == (400, "bad_request")
        assert answer["detail"] == f"the header {name.lower()} occurs more than once"
    assert (await client.get("/api/runs"))["runs"] == []


async def test_header_that_is_a_list_may_be_repeated(url: str) -> None:
    """Cookies may come in several headers. W3C Trace Context ignores a repeated `traceparent`."""
    async with served(url, access=TOKENS) as client:
        ours = f"{TOKENS.cookie_name}={TOKENS.create_session('operate')}"
        trace = f"00-{'a' * 32}-{'b' * 16}-01"
        parts = [("cookie", "x=1"), ("cookie", ours), *[("traceparent", trace)] * 2]
        headers = CIMultiDict([("content-type", "application/json"), *parts])
        answer = await client.send("POST", "/api/runs", b'{"job":"echo"}', headers)
        assert (answer.status, answer["traceparent"]) == (201, None)


@pytest.mark.proves("S6")
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"{", 422),
        (b'{"job":"echo","job":"stay"}', 422),
        (b'{"job":"echo","params":{"said":NaN}}', 422),
        (b'{"job":"echo","params":{"said":"\\ud800"}}', 422),
        (b'{"job":"\xff"}', 422),
        (b'{"job":"echo","params":{"said":' + b"[" * 100 + b"]" * 100 + b"}}", 422),
        (b"[" * 100_000, 422),
        (b'{"job":"echo","params":{"said":' + b"9" * 5_000 + b"}}", 422),
        (b'"' + b"x" * (1 << 20) + b'"', 413),
        (b"", 422),
    ],
    ids=range(10),
)
async def test_only_strict_json_is_accepted(client: Client, data: bytes, status: int) -> None:
    headers = {"content-type": "application/json"}
    answer = await client.send("POST", "/api/runs", data, headers)
    assert answer.status == status
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.proves("S3")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_body_without_the_json_content_type_is_refused(client: Client, kind: str) -> None:
    answer = await client.send("POST", "/api/runs", b'{"job":"echo"}', {"content-type": kind})
    assert (answer.status, answer["code"]) == (415, "not_json")


@pytest.mark.proves("S9")
async def test_answer_to_an_internal_error_has_its_id_but_not_its_message(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("the secret inside")

    monkeypatch.setattr(type(client.hw.store.runs), "lanes", broken)
    answer = await client.get("/api/lanes")
    assert (answer.status, answer["code"]) == (500, "internal")
    assert "secret" not in str(answer.body)
    error_ids = [
        vars(record)["error_id"] for record in caplog.records if "error_id" in vars(record)
    ]
    assert error_ids == [answer["error_id"]]  # Logged once.


@pytest.mark.proves("S1")
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])  # noqa: S104
def test_every_address_except_loopback_requires_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="HEADWAY_TOKEN"):
        check_exposure(host, Access(()))
    check_exposure(host, TOKENS)


@pytest.mark.proves("S1")
async def test_server_reachable_from_other_hosts_does_not_start_without_a_token(url: str) -> None:
    async with Headway(url) as hw:
        with pytest.raises(ConfigurationError, match="HEADWAY_TOKEN"):
            async with asyncio.timeout(10):  # Without the check it would serve.
                await serve(
                    hw, host="0.0.0.0", port=0, access=Access(()), allowed_hosts=(),  # noqa: S104
                    version="0", on_ready=lambda _: None,
                )  # fmt: skip


@pytest.mark.proves("S1")
def test_loopback_requires_no_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        check_exposure(host, Access(()))


async def test_every_answer_has_the_security_headers(client: Client) -> None:
    for path in ("/api/lanes", "/nope", "/healthz"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
