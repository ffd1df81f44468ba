"""I6, I20: a command whose answer is lost starts nothing twice, and tells what it does not know."""

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
from tests.cli.lossy import losing
from tests.cli.reached import Said

pytestmark = pytest.mark.backend("sqlite")


@pytest.fixture
async def said(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Said]:
    monkeypatch.chdir(tmp_path)
    async with served(url) as client:
        yield Said(capsys, client)


async def accepted(client: Client) -> list[str]:
    return [run["id"] for run in (await client.get("/api/runs"))["runs"]]


@pytest.mark.proves("I6")
async def test_a_lost_answer_is_asked_for_again_and_the_run_is_one(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with losing(said.client.address, answer_count=1) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        printed = await said.lines(runs.submit("echo"))
    assert printed == await accepted(said.client)


@pytest.mark.proves("I6")
async def test_what_may_have_been_accepted_is_not_said_to_be_out_of_reach(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with losing(said.client.address, answer_count=2) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match="may have been accepted") as lost:
            await runs.submit("echo")
        key = re.search(r"--idempotency-key (\S+)", str(lost.value))
        assert key is not None
        printed = await said.lines(runs.submit("echo", idempotency_key=key[1]))
    assert printed == await accepted(said.client)
    monkeypatch.setenv("HEADWAY_URL", said.client.address)
    assert await said.lines(runs.submit("echo", idempotency_key=key[1])) == printed
    with pytest.raises(InvalidInput, match="--idempotency-key"):
        await runs.submit("echo", idempotency_key="a\nb")


@pytest.mark.proves("I20")
async def test_what_may_have_been_done_is_said_so(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with losing(said.client.address, answer_count=1) as address:
        monkeypatch.setenv("HEADWAY_URL", address)
        with pytest.raises(ApiError, match="may have been done: look"):
            await lanes.pause("main")
    assert (await said.client.get("/api/lanes/main"))["paused"] is True


async def test_the_path_of_a_server_is_not_dropped(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_URL", f"{said.client.address}/elsewhere/")
    with pytest.raises(ConfigurationError, match=r"'/elsewhere/api/lanes'.*is HEADWAY_URL="):
        await lanes.list_()
    monkeypatch.setenv("HEADWAY_URL", f"{said.client.address}/?a=b")
    with pytest.raises(ConfigurationError, match="must be the address of a server"):
        await lanes.list_()


@pytest.mark.parametrize("words", [["doctor"], ["db", "check"], ["db", "upgrade"], ["db", "prune"]])
def test_what_looks_into_a_database_itself_does_not_take_a_server_for_one(
    folder: Path, words: list[str]
) -> None:
    sentence = refusal(*words, folder=folder, HEADWAY_URL="http://127.0.0.1:8070")
    assert sentence.startswith(f"headway {' '.join(words)} looks into a database itself")
    assert sentence.endswith("say where its database is with HEADWAY_DATABASE_URL")
