"""How commands follow a stream: on a server and on a database, through cuts and ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from starlette.types import Message, Receive, Scope, Send

from headway.cli.client import api_client as client_module
from headway.cli.client.api_client import ApiResponse, Client
from headway.cli.client.in_process import LocalTransport
from headway.cli.commands import watch
from headway.cli.output.event_text import EVENTS_REMOVED
from headway.core.command.admin.prune import PruneEvents
from headway.services.upkeep import event_feed
from tests.api.conftest import fail_over, served
from tests.cli.command import command, environment

pytestmark = pytest.mark.backend("sqlite")


class Scripted:
    """A transport whose streams say what is written down, and end."""

    address = "here"

    def __init__(self, *streams: Sequence[str]) -> None:
        self._streams = iter(streams)
        self.asked: list[str] = []

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.asked.append(path)
        yield self._lines(next(self._streams))

    async def _lines(self, blocks: Sequence[str]) -> AsyncIterator[bytes]:
        for block in blocks:
            for line in block.split("\n"):
                yield line.encode()


@pytest.mark.proves("I14")
async def test_a_command_resumes_where_the_stream_was_also_without_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "RETRY_S", 0.0)
    told = 'id: 5\nevent: told\ndata: {"seq":5}\n'
    transport = Scripted(
        [
            "retry: 1000\nepoch: 1\nid: 2\n",
            told,
            ": ping\nid: 9\n",
            "event: server_closing\ndata: {}\n",
        ],
        ['id: 12\nepoch: 2\nevent: resync\ndata: {"seq":12}\n'],
        [told.replace("5", "13")],
    )
    events = Client(transport).events("run")
    assert [(await anext(events))["seq"] for _ in range(3)] == [5, 12, 13]
    places = [dict(parse_qsl(urlsplit(path).query)) for path in transport.asked]
    assert places == [{}, {"after": "9", "epoch": "1"}, {"after": "12", "epoch": "2"}]


@pytest.mark.proves("I14")
async def test_events_are_listed_page_by_page_within_one_epoch(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(url) as client:
        monkeypatch.setenv("HEADWAY_URL", client.address)
        run_id = await client.submitted("echo")
        await client.ended(run_id)
        monkeypatch.setattr(event_feed, "PAGE_COUNT", 2)
        await watch.events(run_id)
        assert len(capsys.readouterr().out.splitlines()) == 3
        count = 0

        async def get_later(self: Client, path: str, **query: Any) -> Any:
            nonlocal count
            count += 1
            if count == 3:  # The run, its first page, its second.
                fail_over(url)
            return await get(self, path, **query)

        get = Client.get
        monkeypatch.setattr(Client, "get", get_later)
        await watch.events(run_id)
        told = capsys.readouterr()
    assert (len(told.out.splitlines()), told.err) == (2, f"{EVENTS_REMOVED}\n")


def application(*parts: bytes, error: Exception | None = None, begins: bool = True) -> Any:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if begins:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts:
            await send(_part(part))
        if error is not None:
            raise error

    return answer


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def lines_of(transport: LocalTransport) -> list[bytes]:
    async with asyncio.timeout(20), transport.stream("/api/events") as lines:
        return [line async for line in lines]


@pytest.mark.proves("I20")
async def test_without_a_server_a_stream_ends_with_the_application() -> None:
    transport = LocalTransport(application(b"one\ntw", b"o\n"), "here")
    assert await lines_of(transport) == [b"one", b"two"]


@pytest.mark.proves("I20")
@pytest.mark.parametrize("begins", [True, False])
async def test_without_a_server_what_breaks_the_application_is_raised(*, begins: bool) -> None:
    parts = (b"one\n", b"two\n") if begins else ()
    broken = application(*parts, error=ZeroDivisionError("no"), begins=begins)
    with pytest.raises(ZeroDivisionError):
        await lines_of(LocalTransport(broken, "here"))


@pytest.mark.proves("I14")
async def test_events_that_are_gone_are_told_beside_those_that_are_kept(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(url) as client:
        monkeypatch.setenv("HEADWAY_URL", client.address)
        run_id = await client.submitted("shout", params={"count": 3, "length": 2})
        await client.ended(run_id)
        await watch.events(run_id)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split("\t")[1:] for line in lines] == [
            ["run_state_changed", "Queued"],
            ["run_state_changed", "Running"],
            *(["run_log", f"{number} xx"] for number in range(3)),
            ["run_state_changed", "Done"],
        ]
        await client.hw.store.apply(PruneEvents(up_to_seq=1))
        await watch.events(run_id)
        told = capsys.readouterr()
    assert (told.err, told.out.splitlines()) == (f"{EVENTS_REMOVED}\n", lines[1:])


@pytest.mark.parametrize("arguments", [("watch",), ("events", "--follow")])
async def test_json_is_told_while_the_run_goes_on(url: str, arguments: tuple[str, ...]) -> None:
    async with served(url) as client:
        run_id = await client.submitted("stay")
        following = await asyncio.create_subprocess_exec(
            *command("run", *arguments, run_id, "--json"),
            env=environment(HEADWAY_URL=client.address),
            stdout=asyncio.subprocess.PIPE,
        )
        assert following.stdout is not None
        try:
            async with asyncio.timeout(30):
                told = [json.loads(await following.stdout.readline()) for _ in range(2)]
            assert [event["state"] for event in told] == ["Queued", "Running"]
        finally:
            with suppress(ProcessLookupError):
                following.kill()
            await following.wait()
