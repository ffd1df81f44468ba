"""Who may call a worker: programs that mean it, and no page of a browser (S1, S3)."""

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


async def answered(url: str, headers: dict[str, str]) -> tuple[int, str]:
    """Of a call that is as plain as a page could send it, but for these headers."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=b'{"input": [1]}', headers=headers) as answer,
    ):
        said = await answer.json()
        return answer.status, said.get("error", "")


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
async def test_no_page_reaches_the_services_of_this_host(
    path: str, headers: dict[str, str], status: int, problem: str
) -> None:
    async with a_worker() as worker:
        got, said = await answered(f"{worker.url}{path}", headers)
        assert got == status
        assert problem in said


@pytest.mark.proves("S1")
async def test_a_worker_that_other_hosts_reach_needs_a_token(
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
        assert await answered(url, JSON | {"Authorization": f"Bearer {TOKEN}"}) == (200, "")
        for wrong in ("", f"Bearer {TOKEN}x", TOKEN, "Bearer ümlaut"):
            assert (await answered(url, JSON | {"Authorization": wrong}))[0] == 401


@pytest.mark.proves("S1")
async def test_the_engine_tells_a_worker_its_token(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_WORKER_TOKEN", TOKEN)
    async with Headway(url, stop_wait_s=0) as hw, a_worker() as worker:
        await hw.workers.register(worker.id, worker.url, ["sum"])
        node = {"kind": "executor", "service": "sum", "prep": {"input_key": "$params.given"}}
        node["post"] = {"output_key": "out"}
        await hw.flows.publish("f", a_flow({"n": node}))
        run = await hw.flows.start("f", params={"given": [1, 2]})
        assert await run.result(20) == {"out": 3}


@pytest.mark.proves("R5.7")
@pytest.mark.parametrize("url", ["https://127.0.0.1:8080", "http://127.0.0.1:8080/work"])
def test_what_a_worker_cannot_listen_at_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="WORKER_URL"):
        a_worker(url)
