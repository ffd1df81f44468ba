"""Nothing gets past the guard without a reason (S1, S2, S3, S6, S9)."""

import base64
from typing import Any

import pytest

from headway.api.access import Access, Scope, Token
from headway.api.server import check_exposure
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
OPEN = {
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("post", "/api/session"),
    ("delete", "/api/session"),
}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def operations(client: Client) -> list[tuple[str, str]]:
    document = (await client.get("/openapi.json", **bearer(OPERATE))).body
    return [(method, path) for path, methods in document["paths"].items() for method in methods]


async def test_s2_every_route_refuses_no_token_a_wrong_one_and_a_weak_one(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        found = await operations(client)
        assert len(found) > 15
        for method, pattern in found:
            if (method, pattern) in OPEN:
                continue
            path = pattern.replace("{run_id}", "x").replace("{name}", "x").replace("{key}", "x")
            for headers in ({}, bearer("wrong-wrong-wrong-wrong"), {"authorization": "Basic !"}):
                answer = await client.call(method, path, **headers)
                assert (answer.status, answer["code"]) == (401, "unauthorized"), (method, path)
            weak = await client.call(method, path, **bearer(WORKER))
            assert (weak.status, weak["code"]) == (403, "forbidden"), (method, path)
            if method != "get":
                weak = await client.call(method, path, **bearer(READ))
                assert (weak.status, weak["code"]) == (403, "forbidden"), (method, path)


async def test_s2_no_method_of_any_path_gets_through_without_its_scope(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        for pattern in {path for _, path in await operations(client)}:
            path = pattern.replace("{run_id}", "x").replace("{name}", "x").replace("{key}", "x")
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
                if (method.lower(), pattern) in OPEN or path == "/api/session":
                    continue
                is_open = path in ("/healthz", "/readyz")
                for headers, status in (({}, 401), (bearer("wrong-wrong-wrong-wrong"), 401)):
                    answer = await client.call(method, path, **headers)
                    assert answer.status == (405 if is_open else status), (method, path)
                weak = await client.call(method, path, **bearer(WORKER))
                assert weak.status == (405 if is_open else 403), (method, path)


async def test_s2_an_unknown_path_and_method_tell_nothing_without_a_token(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        for method in ("GET", "PUT", "OPTIONS", "TRACE", "BREW"):
            assert (await client.call(method, "/api/nope")).status == 401


async def test_s2_basic_with_the_token_as_password_is_taken(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        said = base64.b64encode(f"anybody:{READ}".encode()).decode()
        assert (await client.get("/api/lanes", authorization=f"Basic {said}")).status == 200


async def test_s2_a_browser_signs_in_once_and_keeps_a_cookie(url: str) -> None:
    async with served(url, access=TOKENS) as client:
        assert (await client.post("/api/session", {"token": "nope"})).status == 401
        answer = await client.post("/api/session", {"token": READ})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        session = cookie.partition(";")[0]
        assert (await client.get("/api/lanes", cookie=session)).status == 200
        assert (await client.call("PATCH", "/api/lanes/main", {}, cookie=session)).status == 403
        name, _, value = session.partition("=")
        for forged in (value.replace("read", "operate"), value[:-1] + "0", "1.read.", "x"):
            if forged != value:
                assert (await client.get("/api/lanes", cookie=f"{name}={forged}")).status == 401


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
async def test_s3_a_page_of_another_origin_is_refused(
    client: Client, method: str, headers: dict[str, str]
) -> None:
    for path in ("/api/events", "/api/runs", "/healthz"):
        answer = await client.call(method, path, accept="text/event-stream", **headers)
        assert (answer.status, answer["code"]) == (403, "cross_origin")


async def test_s3_our_own_page_is_not_refused(client: Client) -> None:
    ours = {"origin": client.address, "sec_fetch_site": "same-origin"}
    assert (await client.get("/api/lanes", **ours)).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8070", "", "127.0.0.1.nip.io"])
async def test_s3_a_wrong_host_is_refused(client: Client, host: str) -> None:
    answer = await client.get("/api/lanes", host=host)
    assert answer.status in (400, 421)


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
async def test_s6_only_strict_json_is_taken(client: Client, data: bytes, status: int) -> None:
    headers = {"content-type": "application/json"}
    answer = await client.send("POST", "/api/runs", data, headers)
    assert answer.status == status
    assert (await client.get("/api/runs"))["runs"] == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_s3_a_body_must_say_that_it_is_json(client: Client, kind: str) -> None:
    answer = await client.send("POST", "/api/runs", b'{"job":"echo"}', {"content-type": kind})
    assert (answer.status, answer["code"]) == (415, "not_json")


async def test_s9_a_mistake_of_ours_shows_an_id_and_nothing_else(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("the secret inside")

    monkeypatch.setattr(type(client.hw.store.runs), "lanes", broken)
    answer = await client.get("/api/lanes")
    assert (answer.status, answer["code"]) == (500, "internal")
    assert "secret" not in str(answer.body)
    assert answer["error_id"] in caplog.text or any(
        getattr(record, "error_id", None) == answer["error_id"] for record in caplog.records
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])  # noqa: S104
def test_s1_any_address_but_loopback_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="HEADWAY_TOKEN"):
        check_exposure(host, Access(()))
    check_exposure(host, TOKENS)


def test_s1_loopback_needs_none() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        check_exposure(host, Access(()))


async def test_every_answer_has_the_safe_headers(client: Client) -> None:
    for path in ("/api/lanes", "/nope", "/healthz"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
