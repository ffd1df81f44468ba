"""Commands follow event streams of a server and of a database, also after a disconnect."""

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
    """A transport that sends scripted streams, each of which then ends."""

    address = "here"

    def __init__(self, *streams: Sequence[str]) -> None:
        self._streams = iter(streams)
        self.requested_paths: list[str] = []

    async def request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requested_paths.append(path)
        yield self._lines(next(self._streams))

    async def _lines(self, blocks: Sequence[str]) -> AsyncIterator[bytes]:
        for block in blocks:
            for line in block.split("\n"):
                yield line.encode()


@pytest.mark.proves("I14")
async def test_stream_resumes_after_the_last_received_id_even_if_it_came_with_a_ping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "RETRY_S", 0.0)
    block = 'id: 5\nevent: noted\ndata: {"seq":5}\n'
    transport = Scripted(
        [
            "retry: 1000\nepoch: 1\nid: 2\n",
            block,
            ": ping\nid: 9\n",
            "event: server_closing\ndata: {}\n",
        ],
        ['id: 12\nepoch: 2\nevent: resync\ndata: {"seq":12}\n'],
        [block.replace("5", "13")],
    )
    events = Client(transport).events("run")
    assert [(await anext(events))["seq"] for _ in range(3)] == [5, 12, 13]
    queries = [dict(parse_qsl(urlsplit(path).query)) for path in transport.requested_paths]
    assert queries == [{}, {"after": "9", "epoch": "1"}, {"after": "12", "epoch": "2"}]


@pytest.mark.proves("I14")
async def test_events_are_listed_across_pages_until_the_epoch_changes(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(url) as client:
        monkeypatch.setenv("HEADWAY_URL", client.address)
        run_id = await client.submit("echo")
        await client.wait_for_end(run_id)
        monkeypatch.setattr(event_feed, "PAGE_SIZE", 2)
        await watch.events(run_id)
        assert len(capsys.readouterr().out.splitlines()) == 3
        count = 0

        async def get_later(self: Client, path: str, **query: Any) -> Any:
            nonlocal count
            count += 1
            if count == 3:  # The requests: the run, its first page, its second page.
                fail_over(url)
            return await get(self, path, **query)

        get = Client.get
        monkeypatch.setattr(Client, "get", get_later)
        await watch.events(run_id)
        output = capsys.readouterr()
    assert (len(output.out.splitlines()), output.err) == (2, f"{EVENTS_REMOVED}\n")


def application(*parts: bytes, error: Exception | None = None, has_start: bool = True) -> Any:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if has_start:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in parts:
            await send(_part(part))
        if error is not None:
            raise error

    return answer


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def read_lines(transport: LocalTransport) -> list[bytes]:
    async with asyncio.timeout(20), transport.stream("/api/events") as lines:
        return [line async for line in lines]


@pytest.mark.proves("I20")
async def test_local_stream_ends_when_the_application_ends() -> None:
    transport = LocalTransport(application(b"one\ntw", b"o\n"), "here")
    assert await read_lines(transport) == [b"one", b"two"]


@pytest.mark.proves("I20")
@pytest.mark.parametrize("has_start", [True, False])
async def test_exception_of_the_local_application_is_raised(*, has_start: bool) -> None:
    parts = (b"one\n", b"two\n") if has_start else ()
    failing = application(*parts, error=ZeroDivisionError("no"), has_start=has_start)
    with pytest.raises(ZeroDivisionError):
        await read_lines(LocalTransport(failing, "here"))


@pytest.mark.proves("I14")
async def test_removed_events_are_reported_and_the_remaining_events_are_printed(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with served(url) as client:
        monkeypatch.setenv("HEADWAY_URL", client.address)
        run_id = await client.submit("shout", params={"count": 3, "length": 2})
        await client.wait_for_end(run_id)
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
        output = capsys.readouterr()
    assert (output.err, output.out.splitlines()) == (f"{EVENTS_REMOVED}\n", lines[1:])


@pytest.mark.parametrize("arguments", [("watch",), ("events", "--follow")])
async def test_json_is_printed_while_the_run_continues(
    url: str, arguments: tuple[str, ...]
) -> None:
    async with served(url) as client:
        run_id = await client.submit("stay")
        following = await asyncio.create_subprocess_exec(
            *command("run", *arguments, run_id, "--json"),
            env=environment(HEADWAY_URL=client.address),
            stdout=asyncio.subprocess.PIPE,
        )
        assert following.stdout is not None
        try:
            async with asyncio.timeout(30):
                events = [json.loads(await following.stdout.readline()) for _ in range(2)]
            assert [event["state"] for event in events] == ["Queued", "Running"]
        finally:
            with suppress(ProcessLookupError):
                following.kill()
            await following.wait()
