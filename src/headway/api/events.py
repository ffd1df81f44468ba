"""`/api/events`: the one stream, live as SSE or a page at a time as JSON.

A client takes the snapshot, then follows from its `seq`. Ids rise without a gap as long as nothing
is filtered out. After a cut it resumes with its last id; what it can no longer be given is told
by one `resync`, and the snapshot is where to begin again.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from headway.api.answers import StrictRoute, json_answer, problems
from headway.api.face import Face
from headway.api.metrics import Metrics
from headway.api.problem import RETRY_AFTER_S, Problem
from headway.api.runs import RunIdPath
from headway.api.views import event_view, listed
from headway.api.wire import EventPage, Name
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.services.event_feed import Batch, EventFeed

SSE_TYPE: Final = "text/event-stream"
PING_S: Final = 15.0
CHUNK_BYTE_COUNT_MAX: Final = 128 << 10
STREAM_COUNT_MAX: Final = 2_000
SEQ_MAX: Final = (1 << 63) - 1

Seq = Annotated[int, Query(ge=0, le=SEQ_MAX)]
LastEventId = Annotated[
    str | None, Header(pattern=r"^[0-9]{1,19}$", description="The id of the last event seen.")
]


@dataclass(frozen=True, slots=True)
class Packed:
    """An event as it is sent, made once for all who watch."""

    sse: bytes
    text: str


def pack(event: Event) -> Packed:
    text = event_view(event)
    # JSON has no line breaks of its own, and a type is one of ours or a checked word.
    return Packed(f"id: {event.seq}\nevent: {_word(event.type)}\ndata: {text}\n\n".encode(), text)


def _word(kind: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in kind)


@dataclass(frozen=True, slots=True)
class Wanted:
    run_id: RunId | None
    key: str | None
    lane: str | None
    types: frozenset[str]

    def filter(self) -> Callable[[Event], bool] | None:
        """None: everything is wanted."""
        if not (self.run_id or self.key or self.lane or self.types):
            return None
        return self._has

    def _has(self, event: Event) -> bool:
        return (
            self.run_id in (None, event.run_id)
            and self.key in (None, event.key)
            and self.lane in (None, event.lane)
            and (not self.types or event.type in self.types)
        )


def events_router(face: Face, feed: EventFeed[Packed], metrics: Metrics) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["events"], route_class=StrictRoute)
    streams = Streams(feed, metrics)
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "model": EventPage,
            "content": {SSE_TYPE: {"schema": {"type": "string"}}},
            "description": "A page as JSON, or with `Accept: text/event-stream` the live stream.",
        }
    }

    @router.get("/events", response_class=Response, responses={**answers, **problems()})
    async def events(
        request: Request,
        *,
        after: Seq | None = None,
        run_id: Annotated[str | None, Query(max_length=64)] = None,
        key: Annotated[Name | None, Query()] = None,
        lane: Annotated[Name | None, Query()] = None,
        type: Annotated[list[Name] | None, Query(max_length=50)] = None,  # noqa: A002
        last_event_id: LastEventId = None,
    ) -> Response:
        """What happens, in order. Without `after` a stream begins now, and a page at the start."""
        wanted = Wanted(None if run_id is None else RunId(run_id), key, lane, frozenset(type or ()))
        return await streams.answer(request, wanted, after, last_event_id)

    @router.get(
        "/runs/{run_id}/events",
        response_class=Response,
        responses={**answers, **problems(404)},
    )
    async def run_events(
        request: Request,
        run_id: RunIdPath,
        after: Seq | None = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """What happens to one run; from its beginning, unless told."""
        record = await face.run(run_id).record()
        wanted = Wanted(RunId(run_id), None, None, frozenset())
        # Its first event has the run's own seq: what was pruned before is not missing here.
        start = record.run.seq - 1 if after is None else after
        return await streams.answer(request, wanted, start, last_event_id)

    return router


class Streams:
    def __init__(self, feed: EventFeed[Packed], metrics: Metrics) -> None:
        self._feed = feed
        self._metrics = metrics
        self._count = 0
        self._chunk_of: tuple[int, int, bytes] = (0, 0, b"")

    async def answer(
        self, request: Request, wanted: Wanted, after: int | None, last_event_id: str | None
    ) -> Response:
        if last_event_id is not None:
            after = min(int(last_event_id), SEQ_MAX)
        if SSE_TYPE not in request.headers.get("accept", ""):
            return await self._page(wanted, after or 0)
        if self._count >= STREAM_COUNT_MAX or self._feed.is_closed:
            headers = {"retry-after": str(RETRY_AFTER_S)}
            raise Problem(503, "unavailable", "too many streams are open", headers=headers)
        start = self._feed.last_seq if after is None else after
        return StreamingResponse(
            self._stream(wanted, start), media_type=SSE_TYPE, headers={"x-accel-buffering": "no"}
        )

    async def _page(self, wanted: Wanted, after: int) -> Response:
        batch = await self._feed.read(after, run_id=wanted.run_id)
        has = wanted.filter()
        texts = (one.packed.text for one in batch.entries if has is None or has(one.event))
        resync = json.dumps(batch.is_gap)
        body = f'{{"events":{listed(texts)},"upto_seq":{batch.upto_seq},"resync":{resync}}}'
        return json_answer(body)

    async def _stream(self, wanted: Wanted, seq: int) -> AsyncIterator[bytes]:
        has = wanted.filter()
        self._move(1)
        try:
            yield f"retry: {RETRY_AFTER_S * 1000}\nid: {seq}\n\n".encode()
            while not self._feed.is_closed:
                batch = await self._feed.after(seq, run_id=wanted.run_id)
                if batch.is_gap:
                    yield _resync(batch.upto_seq)
                elif batch.upto_seq == seq:
                    await self._feed.wait(seq, timeout_s=PING_S)
                    if self._feed.last_seq == seq:  # The id, so that a filtered stream moves on.
                        yield f": ping\nid: {seq}\n\n".encode()
                else:
                    for chunk in self._chunks(batch, seq, has):
                        yield chunk
                seq = batch.upto_seq
            yield b"event: server_closing\ndata: {}\n\n"
        finally:
            self._move(-1)

    def _move(self, difference: int) -> None:
        self._count += difference
        self._metrics.note_streams(difference)

    def _chunks(
        self, batch: Batch[Packed], seq: int, has: Callable[[Event], bool] | None
    ) -> list[bytes]:
        if has is None and self._chunk_of[:2] == (seq, batch.upto_seq):
            return [self._chunk_of[2]]  # Most watchers are at the same place.
        chunks: list[bytes] = []
        parts: list[bytes] = []
        byte_count = 0
        for event, packed in batch.entries:
            if has is not None and not has(event):
                continue
            parts.append(packed.sse)
            byte_count += len(packed.sse)
            if byte_count > CHUNK_BYTE_COUNT_MAX:
                chunks.append(b"".join(parts))
                parts, byte_count = [], 0
        if parts:
            chunks.append(b"".join(parts))
        if has is None and len(chunks) == 1:
            self._chunk_of = (seq, batch.upto_seq, chunks[0])
        return chunks


def _resync(seq: int) -> bytes:
    return f'id: {seq}\nevent: resync\ndata: {{"seq":{seq}}}\n\n'.encode()
