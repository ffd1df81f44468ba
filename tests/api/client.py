"""An HTTP client for the tests: JSON requests, JSON answers and server-sent events."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from headway.app import Headway

LINE_BYTE_COUNT_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Any

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event."""

    id: str | None
    event: str
    data: Any

    @property
    def seq(self) -> int:
        """Return the sequence number in the event id."""
        return parse_seq(self.id or "0")


def parse_seq(event_id: str) -> int:
    """Return the sequence number in an event id, whose second part is a mark of that event."""
    return int(event_id.partition("-")[0])


class Client:
    def __init__(self, address: str, hw: Headway) -> None:
        self.address = address
        self.hw = hw

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(
            self.address, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=LINE_BYTE_COUNT_MAX
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.session.close()

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        header_values = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            header_values = {"content-type": "application/json", **header_values}
        return await self.send(method, path, data, header_values)

    async def send(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        async with self.session.request(
            method,
            path,
            data=None if data is None else BytesIO(data),
            headers=headers,
            allow_redirects=False,
        ) as answer:
            text = await answer.text()
            is_json = "json" in answer.headers.get("content-type", "")
            parsed = json.loads(text) if is_json and text else text
            return Answer(answer.status, answer.headers, parsed)

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.call("GET", path, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.call("POST", path, body, **headers)

    async def submit(self, job: str, **body: Any) -> str:
        """Submit a run, check that it is accepted, and return its id."""
        answer = await self.post("/api/runs", {"job": job, **body})
        assert answer.status == 201, answer
        run_id: str = answer["id"]
        return run_id

    async def wait_for_end(self, run_id: str) -> Any:
        """Wait until the run has ended, and return it."""
        await self.hw.run(run_id).wait_for_end()
        return (await self.get(f"/api/runs/{run_id}")).body

    async def wait_for_event(self, run_id: str, kind: str) -> ServerEvent:
        """Return the first event of this kind in the stream of the run."""
        async with self.open_stream(f"/api/runs/{run_id}/events") as events:
            async for event in events:
                if event.event == kind:
                    return event
        raise AssertionError(f"the stream ended without {kind}")

    async def wait_until_running(self, run_id: str) -> None:
        async with self.open_stream(f"/api/runs/{run_id}/events") as events:
            async for event in events:
                if event.data.get("state") == "Running":
                    return

    @asynccontextmanager
    async def open_stream(
        self, path: str, **headers: str
    ) -> AsyncIterator[AsyncIterator[ServerEvent]]:
        header_values = {name.replace("_", "-"): value for name, value in headers.items()}
        header_values = {"accept": "text/event-stream", **header_values}
        async with self.session.get(path, headers=header_values) as answer:
            assert answer.status == 200, await answer.text()
            yield _events(answer)


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[ServerEvent]:
    """Yield the events that a browser would dispatch: a block without data only moves the id."""
    fields: dict[str, str] = {}
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                event = fields.get("event", "message")
                yield ServerEvent(fields.get("id"), event, json.loads(fields["data"]))
            fields = {}
