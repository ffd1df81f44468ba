"""A server that says what a test has written down, line by line, and notes what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

HANG: Final = "hang"
"""Say nothing more, and keep the line open."""
EPOCH: Final = 7


def event(seq: int, kind: str = "told") -> str:
    return f"id: {seq}\nevent: {kind}\ndata: {json.dumps({'seq': seq, 'type': kind})}\n\n"


@dataclass(slots=True)
class Script:
    snapshots: Sequence[int | str]
    """The `seq` of each, in the order in which they are asked for, or HANG."""
    streams: Sequence[Sequence[str]]
    """What each stream says; then its line is cut."""
    status: int = 200
    has_epoch: bool = True
    asked: list[str] = field(default_factory=list)
    """`state`, or after which id a stream was asked for."""
    epochs: list[str] = field(default_factory=list)
    """With which epoch a stream was asked for; an empty one: with none."""
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    """It hangs now."""
    may_end: asyncio.Event | None = None
    """Until then only the first part of a snapshot is told."""

    def _snapshot(self, number: int) -> str:
        seq = self.snapshots[number]
        if seq == HANG:
            return HANG
        return json.dumps({"seq": seq} | ({"epoch": EPOCH} if self.has_epoch else {}))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        is_state = "/api/state" in head
        count = self.asked.count("state")
        if is_state:
            self.asked.append("state")
            said = [self._snapshot(count)] if self.status == 200 else []
        else:
            said = list(self.streams[len(self.asked) - count])
            query = head.partition("?")[2].partition(" ")[0]
            self.epochs.append(dict(parse_qsl(query)).get("epoch", ""))
            self.asked.append(head.partition("last-event-id: ")[2].partition("\r\n")[0])
        writer.write(f"HTTP/1.1 {self.status} said\r\nconnection: close\r\n\r\n".encode())
        for block in said:
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
