"""Whoever answers instead of headway is not believed: one sentence, and a code that tells it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from headway.cli.client import api_client as client
from headway.cli.client.api_client import ApiError
from headway.cli.commands import flow_commands as flows
from headway.cli.commands import key_commands as keys
from headway.cli.commands import lane_commands as lanes
from headway.cli.commands import run_commands as runs
from headway.cli.commands import schedule_commands as schedules
from headway.cli.commands import task_commands as tasks
from headway.cli.commands import watch
from headway.cli.exit_codes import EXIT_INVALID, EXIT_UNREACHABLE
from headway.core.errors import ConfigurationError
from tests.cli.test_client import exit_code

pytestmark = pytest.mark.backend("sqlite")

Command = Callable[[], Awaitable[object]]
COMMANDS: list[Command] = [
    lambda: runs.submit("echo"),
    runs.list_,
    lambda: runs.get("a"),
    lambda: runs.explain("a"),
    lambda: runs.cancel("a"),
    lambda: runs.send("a", "hello"),
    lambda: runs.resume("a", call_id="1.1", approve=True),
    lambda: watch.watch("a"),
    lambda: watch.events("a"),
    lanes.list_,
    lambda: lanes.pause("main"),
    lambda: lanes.clear("main"),
    keys.list_,
    lambda: keys.set_("ann", "echo"),
    lambda: keys.rm("ann"),
    schedules.list_,
    flows.list_,
    lambda: flows.show("f"),
    lambda: flows.graph("f"),
    lambda: flows.start("f"),
    tasks.list_,
    lambda: tasks.signal("a", "go", "1"),
    lambda: tasks.approve("a"),
    lambda: tasks.cancel("a"),
]


@asynccontextmanager
async def answering(**answer: Any) -> AsyncIterator[str]:
    """The address of somebody who says the same to everybody."""

    async def say(_: web.BaseRequest) -> web.Response:
        return web.Response(**answer)

    runner = web.ServerRunner(web.Server(say))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"status": 308, "headers": {"Location": "https://e.example/"}}, "https://e.example/"),
        ({"status": 301, "headers": {"Location": "https://e.example/"}}, "https://e.example/"),
        ({"text": "<html>", "content_type": "text/html"}, "does not answer as headway does"),
        ({"text": "[]", "content_type": "application/json"}, "does not answer as headway does"),
        ({"body": b"\xff", "content_type": "text/html"}, "does not answer as headway does"),
        ({"status": 418, "text": "tea"}, "answered 418, and not as headway does"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
async def test_a_stranger_is_told_in_one_sentence(
    command: Command, answer: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(**answer) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match=why) as refused:
            await command()
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("I15")
async def test_a_diagram_that_cannot_be_read_is_of_a_stranger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with answering(body=b"flowchart \xff", content_type="text/plain") as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match="does not answer as headway does") as refused:
            await flows.graph("f")
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("I15")
@pytest.mark.parametrize("command", [runs.list_, lanes.list_, lambda: lanes.clear("main")])
async def test_an_answer_to_something_else_is_told_in_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(text='{"a": 1}', content_type="application/json") as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match=r"its answer has no '\w+'"):
            await command()


@pytest.mark.proves("I20")
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_proxy_without_its_server_is_a_server_that_does_not_answer(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_S", 0)
    monkeypatch.setattr(client, "RETRY_COUNT_MAX", 1)
    async with answering(status=status, text="<html>") as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        for command in (runs.list_, lambda: watch.watch("a"), lambda: watch.events("a")):
            with pytest.raises(ApiError, match="cannot be reached") as refused:
                await command()
            assert exit_code(refused.value) == EXIT_UNREACHABLE
        with pytest.raises(ApiError, match="repeat it with: --idempotency-key") as lost:
            await runs.submit("echo")
        assert exit_code(lost.value) == EXIT_UNREACHABLE
        with pytest.raises(ApiError, match="may have been done"):
            await lanes.pause("main")


@pytest.mark.proves("I15")
@pytest.mark.parametrize("url", ["http://h:99999", "http://h:x", "http://[::1", "ftp://h", "h:1"])
async def test_an_address_that_is_none_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_URL", url)
    with pytest.raises(ConfigurationError, match="HEADWAY_URL must be the address"):
        await runs.list_()
