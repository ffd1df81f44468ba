"""A server that sends scripted answers block by block and records the requests."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

HANG: Final = "hang"
"""Send nothing more, and keep the connection open."""
EPOCH: Final = 7


def event(seq: int, kind: str = "noted") -> str:
    return f"id: {seq}\nevent: {kind}\ndata: {json.dumps({'seq': seq, 'type': kind})}\n\n"


@dataclass(slots=True)
class Script:
    snapshots: Sequence[int | str]
    """The `seq` of each snapshot, in the order of the requests, or HANG."""
    streams: Sequence[Sequence[str]]
    """The blocks of each stream, after which its connection is closed."""
    status: int = 200
    has_epoch: bool = True
    requests: list[str] = field(default_factory=list)
    """One entry per request: `state`, or the last event id of a stream request."""
    epochs: list[str] = field(default_factory=list)
    """The epoch of each stream request; empty if the request has none."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server hangs."""
    may_end: asyncio.Event | None = None
    """Until it is set, only the first half of a snapshot is sent."""

    def _snapshot(self, number: int) -> str:
        seq = self.snapshots[number]
        if seq == HANG:
            return HANG
        return json.dumps({"seq": seq} | ({"epoch": EPOCH} if self.has_epoch else {}))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        is_state = "/api/state" in head
        count = self.requests.count("state")
        if is_state:
            self.requests.append("state")
            blocks = [self._snapshot(count)] if self.status == 200 else []
        else:
            blocks = list(self.streams[len(self.requests) - count])
            query = head.partition("?")[2].partition(" ")[0]
            self.epochs.append(dict(parse_qsl(query)).get("epoch", ""))
            self.requests.append(head.partition("last-event-id: ")[2].partition("\r\n")[0])
        writer.write(f"HTTP/1.1 {self.status} scripted\r\nconnection: close\r\n\r\n".encode())
        for block in blocks:
            if block == HANG:
                self.silent.set()
                await reader.read()
                break
            begin = 0
            if is_state and self.may_end is not None:
                begin = len(block) // 2
                writer.write(block[:begin].encode())
                await self.may_end.wait()
            writer.write(block[begin:].encode())
        writer.close()


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[str]:
    server = await asyncio.start_server(script.answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield f"http://{host}:{port}"
