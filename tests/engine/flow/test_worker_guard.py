"""A worker accepts calls from authorized programs, and none from web pages (S1, S3)."""

from typing import Any

import aiohttp
import pytest

from headway import Headway
from headway.core.errors import ConfigurationError
from headway.worker.program import Worker
from tests.engine.flow.scenes import a_flow

pytestmark = pytest.mark.backend("sqlite")

TOKEN = "a-token-for-workers"
JSON = {"Content-Type": "application/json"}


def a_worker(url: str = "http://127.0.0.1:8080", **more: Any) -> Worker:
    return Worker(url=url, registry_url="http://127.0.0.1:1", **more)


async def post(url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Send a request that a web page could send, with these headers added."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=b'{"input": [1]}', headers=headers) as response,
    ):
        body = await response.json()
        return response.status, body.get("error", "")


@pytest.mark.proves("S3")
@pytest.mark.parametrize("path", ["/exec/sum", "/cancel/r1.c1"])
@pytest.mark.parametrize(
    ("headers", "status", "problem"),
    [
        ({}, 415, "Content-Type: application/json"),
        ({"Content-Type": "text/plain"}, 415, "Content-Type: application/json"),
        ({"Content-Type": "text/plain; application/json"}, 415, "Content-Type: application/json"),
        (JSON | {"Origin": "http://127.0.0.1:8080"}, 403, "page"),
        (JSON | {"Origin": "null"}, 403, "page"),
        (JSON | {"Sec-Fetch-Site": "cross-site"}, 403, "page"),
        (JSON | {"Sec-Fetch-Site": "same-site"}, 403, "page"),
        (JSON | {"Host": "evil.example:8080"}, 421, "WORKER_URL"),
        (JSON | {"Host": "127.0.0.1.evil.example"}, 421, "WORKER_URL"),
        (JSON | {"Host": "localhost:1"}, 200, ""),
        (JSON, 200, ""),
        ({"Content-Type": "application/json; charset=utf-8"}, 200, ""),
    ],
)
async def test_web_pages_cannot_call_the_services_of_this_host(
    path: str, headers: dict[str, str], status: int, problem: str
) -> None:
    async with a_worker() as worker:
        actual_status, error = await post(f"{worker.url}{path}", headers)
        assert actual_status == status
        assert problem in error


@pytest.mark.proves("S1")
async def test_a_worker_that_other_hosts_can_reach_requires_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HEADWAY_WORKER_TOKEN", raising=False)
    with pytest.raises(ConfigurationError, match="HEADWAY_WORKER_TOKEN"):
        await a_worker("http://0.0.0.0:8080").__aenter__()
    with pytest.raises(ConfigurationError, match="shorter than 16"):
        a_worker("http://0.0.0.0:8080", worker_token="short")
    monkeypatch.setenv("HEADWAY_WORKER_TOKEN", TOKEN)
    async with a_worker("http://0.0.0.0:8080") as worker:
        url = f"{worker.url.replace('0.0.0.0', '127.0.0.1')}/exec/sum"  # noqa: S104
        assert await post(url, JSON | {"Authorization": f"Bearer {TOKEN}"}) == (200, "")
        for invalid in ("", f"Bearer {TOKEN}x", TOKEN, "Bearer ümlaut"):
            assert (await post(url, JSON | {"Authorization": invalid}))[0] == 401


@pytest.mark.proves("S1")
async def test_the_engine_sends_the_token_to_workers(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WORKER_TOKEN", TOKEN)
    async with Headway(url, stop_wait_s=0) as hw, a_worker() as worker:
        await hw.workers.register(worker.id, worker.url, ["sum"])
        node = {"kind": "executor", "service": "sum", "prep": {"input_key": "$params.value"}}
        node["post"] = {"output_key": "out"}
        await hw.flows.publish("f", a_flow({"n": node}))
        run = await hw.flows.start("f", params={"value": [1, 2]})
        assert await run.result(20) == {"out": 3}


@pytest.mark.proves("R5.7")
@pytest.mark.parametrize("url", ["https://127.0.0.1:8080", "http://127.0.0.1:8080/work"])
def test_a_worker_refuses_a_url_that_it_cannot_serve(url: str) -> None:
    with pytest.raises(ConfigurationError, match="WORKER_URL"):
        a_worker(url)
