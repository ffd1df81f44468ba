"""An answer that is not headway's is refused with one sentence and an exit code."""

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
async def serve_answer(**answer: Any) -> AsyncIterator[str]:
    """Yield the address of a server that sends the same response to every request."""

    async def respond(_: web.BaseRequest) -> web.Response:
        return web.Response(**answer)

    runner = web.ServerRunner(web.Server(respond))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"status": 308, "headers": {"Location": "https://e.example/"}}, "https://e.example/"),
        ({"status": 301, "headers": {"Location": "https://e.example/"}}, "https://e.example/"),
        ({"text": "<html>", "content_type": "text/html"}, "does not answer like headway"),
        ({"text": "[]", "content_type": "application/json"}, "does not answer like headway"),
        ({"body": b"\xff", "content_type": "text/html"}, "does not answer like headway"),
        ({"status": 418, "text": "tea"}, "answered 418, and not like headway"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
async def test_foreign_server_is_reported_in_one_sentence(
    command: Command, answer: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_answer(**answer) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match=reason) as refused:
            await command()
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("I15")
async def test_undecodable_diagram_is_reported_as_a_foreign_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serve_answer(body=b"flowchart \xff", content_type="text/plain") as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match="does not answer like headway") as refused:
            await flows.graph("f")
    assert exit_code(refused.value) == EXIT_INVALID


@pytest.mark.proves("I15")
@pytest.mark.parametrize("command", [runs.list_, lanes.list_, lambda: lanes.clear("main")])
async def test_json_without_the_expected_field_is_reported_in_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_answer(text='{"a": 1}', content_type="application/json") as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match=r"its answer has no '\w+'"):
            await command()


@pytest.mark.proves("I20")
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_gateway_error_of_a_proxy_counts_as_an_unreachable_server(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_S", 0)
    monkeypatch.setattr(client, "RETRY_COUNT_MAX", 1)
    async with serve_answer(status=status, text="<html>") as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        for command in (runs.list_, lambda: watch.watch("a"), lambda: watch.events("a")):
            with pytest.raises(ApiError, match="cannot be reached") as refused:
                await command()
            assert exit_code(refused.value) == EXIT_UNREACHABLE
        with pytest.raises(ApiError, match="repeat the command with --idempotency-key") as lost:
            await runs.submit("echo")
        assert exit_code(lost.value) == EXIT_UNREACHABLE
        with pytest.raises(ApiError, match="may have taken effect"):
            await lanes.pause("main")


@pytest.mark.proves("I15")
@pytest.mark.parametrize("url", ["http://h:99999", "http://h:x", "http://[::1", "ftp://h", "h:1"])
async def test_invalid_server_url_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_URL", url)
    with pytest.raises(ConfigurationError, match="HEADWAY_URL must be the address"):
        await runs.list_()
