"""A command whose answer is lost starts nothing twice and reports the doubt (I6, I20)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.cli.client.api_client import ApiError
from headway.cli.commands import lane_commands as lanes
from headway.cli.commands import run_commands as runs
from headway.core.errors import ConfigurationError, InvalidInput
from tests.api.client import Client
from tests.api.conftest import served
from tests.cli.command import refusal
from tests.cli.command_runner import CommandRunner
from tests.cli.lossy_proxy import drop_answers

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
async def cli(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[CommandRunner]:
    monkeypatch.chdir(tmp_path)
    async with served(url) as client:
        yield CommandRunner(capsys, client)


async def run_ids(client: Client) -> list[str]:
    return [run["id"] for run in (await client.get("/api/runs"))["runs"]]


@pytest.mark.proves("I6")
async def test_request_with_a_lost_answer_is_repeated_without_a_second_run(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with drop_answers(cli.client.address, answer_count=1) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        printed = await cli.lines(runs.submit("echo"))
    assert printed == await run_ids(cli.client)


@pytest.mark.proves("I6")
async def test_submission_in_doubt_is_reported_with_an_idempotency_key(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with drop_answers(cli.client.address, answer_count=2) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match="may have been accepted") as lost:
            await runs.submit("echo")
        key = re.search(r"--idempotency-key (\S+)", str(lost.value))
        assert key is not None
        printed = await cli.lines(runs.submit("echo", idempotency_key=key[1]))
    assert printed == await run_ids(cli.client)
    monkeypatch.setenv("HEADWAY_URL", cli.client.address)
    assert await cli.lines(runs.submit("echo", idempotency_key=key[1])) == printed
    with pytest.raises(InvalidInput, match="--idempotency-key"):
        await runs.submit("echo", idempotency_key="a\nb")


@pytest.mark.proves("I20")
async def test_command_in_doubt_reports_that_it_may_have_taken_effect(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with drop_answers(cli.client.address, answer_count=1) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match="may have taken effect; check"):
            await lanes.pause("main")
    assert (await cli.client.get("/api/lanes/main"))["paused"] is True


async def test_path_of_the_server_url_is_kept(
    cli: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_URL", f"{cli.client.address}/elsewhere/")
    with pytest.raises(ConfigurationError, match=r"'/elsewhere/api/lanes'.*is HEADWAY_URL="):
        await lanes.list_()
    monkeypatch.setenv("HEADWAY_URL", f"{cli.client.address}/?a=b")
    with pytest.raises(ConfigurationError, match="must be the address of a server"):
        await lanes.list_()


@pytest.mark.parametrize(
    "arguments", [["doctor"], ["db", "check"], ["db", "upgrade"], ["db", "prune"]]
)
def test_database_command_refuses_a_server_url(folder: Path, arguments: list[str]) -> None:
    sentence = refusal(*arguments, folder=folder, HEADWAY_URL="http://127.0.0.1:8070")
    assert sentence.startswith(f"headway {' '.join(arguments)} uses the database directly")
    assert sentence.endswith("set HEADWAY_DATABASE_URL to the database of that server")
