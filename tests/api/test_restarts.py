"""A stop or kill of the server does not answer an open interrupt; only a person does."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.api.program import served_in_subprocess
from tests.cli.command import headway


async def call(address: str, method: str, path: str, body: Any = None) -> Any:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{address}{path}", json=body) as answer,
    ):
        assert answer.status < 300, await answer.text()
        return await answer.json()


async def submit_ask(address: str, key: str) -> str:
    run_id: str = (await call(address, "POST", "/api/runs", {"job": "ask", "key": key}))["id"]
    return run_id


async def wait_for_interrupts(address: str, count: int) -> dict[str, str]:
    """Wait until `count` interrupts are open, and return their call ids by key."""
    while True:
        listed = (await call(address, "GET", "/api/interrupts"))["interrupts"]
        if len(listed) == count:
            return {interrupt["key"]: interrupt["call_id"] for interrupt in listed}
        await asyncio.sleep(0.05)


async def wait_for_field(address: str, run_id: str, name: str, values: set[Any]) -> Any:
    """Return the run once its field `name` has one of these values."""
    while (run := await call(address, "GET", f"/api/runs/{run_id}"))[name] not in values:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return run


@pytest.mark.proves("R4.9", "R6.5", "I3", "I25")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])
async def test_interrupts_survive_a_server_stop_and_each_answer_is_received_once(
    database_url: str, tmp_path: Path, end: signal.Signals
) -> None:
    settings = {"HEADWAY_DATABASE_URL": database_url, "HEADWAY_DATA": str(tmp_path / "data")}
    async with asyncio.timeout(120):
        with served_in_subprocess(tmp_path, **settings) as first:
            run_ids = {key: await submit_ask(first.address, key) for key in ("ann", "bob")}
            call_ids = await wait_for_interrupts(first.address, 2)
            os.kill(first.pid, end)
        # No process executes them now. The command line answers one, on the database itself.
        resume = ("run", "resume", run_ids["ann"], "--approve")
        answered = await asyncio.to_thread(headway, *resume, folder=tmp_path, **settings)
        assert (answered.code, answered.out) == (0, "answered\n")
        with served_in_subprocess(tmp_path, **settings) as second:
            assert await wait_for_interrupts(second.address, 1) == {"bob": call_ids["bob"]}
            await wait_for_field(second.address, run_ids["bob"], "generation", {2})
            assert await wait_for_interrupts(second.address, 1) == {"bob": call_ids["bob"]}
            answer = {"call_id": call_ids["bob"], "approved": False, "why": "not now"}
            await call(second.address, "POST", f"/api/runs/{run_ids['bob']}/resume", answer)
            ended = {
                key: await wait_for_field(second.address, run_id, "status", {"succeeded", "failed"})
                for key, run_id in run_ids.items()
            }
            page = await call(second.address, "GET", "/api/events?after=0")
    assert ended["ann"]["result"] == {"approved": True}
    assert ended["bob"]["result"] == {"approved": False, "why": "not now"}
    kinds = Counter((event["run_id"], event["type"]) for event in page["events"])
    for run_id in run_ids.values():
        assert kinds[run_id, "permission_request"] == 1
        assert kinds[run_id, "permission_result"] == 1
