"""`/api/events`: the event stream, live as SSE, or as JSON one page at a time.

A client loads the snapshot, then follows the events after its `seq`. Without a filter, the numbers
of events have no gaps. A client that lost its connection resumes with its last id. If events after
that id are no longer stored, it receives one `resync` and must load the snapshot again.

The id of an event consists of its number and a mark, which is the time of the event: `42-643f1c…`.
After a backup is restored, other events get numbers that were used before. A client that resumes
with the id of an event that does not exist receives `resync`. A number without a mark is also
accepted, but then this check is not made.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, cast

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, Field

from headway.api.headway_api import HeadwayApi
from headway.api.http.access import Access
from headway.api.http.cursor import INT64_MAX
from headway.api.http.problem import RETRY_AFTER_S, unavailable
from headway.api.http.request import accepts_media_type
from headway.api.http.responses import json_response, problem_responses
from headway.api.http.strict import StrictRoute
from headway.api.routes.metrics import Metrics
from headway.api.routes.run_routes import RunIdPath, RunIdQuery
from headway.api.wire.api_models import Name
from headway.api.wire.event_views import EVENT_STREAM, EventPage, EventView
from headway.api.wire.views import encode_event_page, event_view
from headway.core.errors import InfrastructureError
from headway.core.ids import Instant, RunId
from headway.core.json_encoder import Json
from headway.core.run.events import JSON_LITERALS, TYPE_LENGTH_MAX, TYPE_PATTERN, Event
from headway.log import event_log
from headway.services.upkeep.event_feed import EventFeed, FeedPage

SSE_TYPE: Final = "text/event-stream"
CHUNK_BYTE_COUNT_MAX: Final = 128 << 10
STREAM_COUNT_MAX: Final = 2_000

log = event_log(__name__)

EVENT_ID_PATTERN: Final = r"^[0-9]{1,19}(-[0-9a-f]{1,16})?$"
"""The pattern of an event id: the number of the event and, if known, its mark.

The mark is the time of the event. After a backup is restored, another event may have the same
number, but it has another mark.
"""
After = Annotated[
    str | None,
    Query(pattern=EVENT_ID_PATTERN, description="The `seq` or the `id` of the last event seen."),
]
Epoch = Annotated[
    int | None,
    Query(
        ge=0,
        le=INT64_MAX,
        description="The epoch of `after`. If the current one differs, the result is `resync`.",
    ),
]
LastEventId = Annotated[
    str | None, Header(pattern=EVENT_ID_PATTERN, description="The id of the last event seen.")
]


def _check_type(type_name: str) -> str:
    if type_name in JSON_LITERALS:
        raise ValueError("must be the type of an event")
    return type_name


EventTypeParam = Annotated[
    str,
    Field(
        pattern=TYPE_PATTERN,
        max_length=TYPE_LENGTH_MAX,
        json_schema_extra={"not": {"enum": sorted(JSON_LITERALS)}},
    ),
    AfterValidator(_check_type),
]


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event as it is sent, encoded once for all streams."""

    sse: bytes
    head_length: int

    def __len__(self) -> int:
        return len(self.sse)

    @property
    def text(self) -> Json[EventView]:
        """The event as JSON, without the SSE framing."""
        return cast("Json[EventView]", self.sse[self.head_length : -2].decode())


def encode_event(event: Event) -> EncodedEvent:
    head = (
        f"id: {event_id(event.seq, event.at)}\nevent: {_to_printable(event.type)}\ndata: ".encode()
    )
    # SSE fields end at a line break. JSON text has none, and `_to_printable` replaces others.
    return EncodedEvent(head + f"{event_view(event)}\n\n".encode(), len(head))


def event_id(seq: int, at: Instant | None) -> str:
    return str(seq) if at is None else f"{seq}-{at:x}"


def _to_printable(type_name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in type_name)


@dataclass(frozen=True, slots=True)
class EventFilter:
    run_id: RunId | None
    key: str | None
    lane: str | None
    types: frozenset[str]

    def predicate(self) -> Callable[[Event], bool] | None:
        """Return a function that tests an event, or None if all events match."""
        if not (self.run_id or self.key or self.lane or self.types):
            return None
        return self._matches

    def _matches(self, event: Event) -> bool:
        return (
            self.run_id in (None, event.run_id)
            and self.key in (None, event.key)
            and self.lane in (None, event.lane)
            and (not self.types or event.type in self.types)
        )


_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": EventPage,
        "content": {SSE_TYPE: EVENT_STREAM},
        "description": "A page as JSON, or with `Accept: text/event-stream` the live stream.",
    }
}


def events_router(
    api: HeadwayApi, feed: EventFeed[EncodedEvent], metrics: Metrics, access: Access
) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["events"], route_class=StrictRoute)
    streams = EventStreams(feed, metrics, access, ping_interval_s=api.timeouts.sse_ping_interval_s)

    @router.get("/events", response_class=Response, responses={**_RESPONSES, **problem_responses()})
    async def events(
        request: Request,
        *,
        after: After = None,
        run_id: RunIdQuery = None,
        key: Annotated[Name | None, Query()] = None,
        lane: Annotated[Name | None, Query()] = None,
        type: Annotated[list[EventTypeParam] | None, Query(max_length=50)] = None,  # noqa: A002
        epoch: Epoch = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Return events in order.

        Without `after`, a stream starts with the next event, and a page with the oldest stored one.
        """
        event_filter = EventFilter(
            None if run_id is None else RunId(run_id), key, lane, frozenset(type or ())
        )
        position = _parse_position(after, last_event_id, epoch)
        return await streams.respond(request, event_filter, position)

    @router.get(
        "/runs/{run_id}/events",
        response_class=Response,
        responses={**_RESPONSES, **problem_responses(404)},
    )
    async def run_events(
        request: Request,
        run_id: RunIdPath,
        after: After = None,
        epoch: Epoch = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Return the events of one run in order, by default from its first event."""
        record = await api.run(run_id).record()
        event_filter = EventFilter(RunId(run_id), None, None, frozenset())
        # The run's first event has the seq of the run, so older pruned events are not a gap here.
        start_seq = record.run.seq - 1
        position = _parse_position(after, last_event_id, epoch)
        return await streams.respond(request, event_filter, position, start_seq=start_seq)

    return router


class StreamPosition(NamedTuple):
    """The last event that a client has received."""

    after: int | None
    at: Instant | None
    """The time of the event, which is the mark in its id. None if the id has no mark."""
    epoch: int | None


def _parse_position(
    after: str | None, last_event_id: str | None, epoch: int | None
) -> StreamPosition:
    seen = last_event_id or after
    if seen is None:
        return StreamPosition(None, None, epoch)
    number, _, mark = seen.partition("-")
    return StreamPosition(
        min(int(number), INT64_MAX), Instant(int(mark, 16)) if mark else None, epoch
    )


class EventStreams:
    def __init__(
        self,
        feed: EventFeed[EncodedEvent],
        metrics: Metrics,
        access: Access,
        *,
        ping_interval_s: float,
    ) -> None:
        self._feed = feed
        self._metrics = metrics
        self._access = access
        self._ping_interval_s = ping_interval_s
        self._stream_count = 0
        self._last_chunk: tuple[FeedPage[EncodedEvent] | None, bytes] = (None, b"")

    async def respond(
        self,
        request: Request,
        event_filter: EventFilter,
        position: StreamPosition,
        *,
        start_seq: int | None = None,
    ) -> Response:
        """Return a page, or a stream if the client accepts SSE.

        `start_seq` is the position before the first event that the filter matches. If it is None,
        a page starts at the oldest stored event, and a stream after the newest one.
        """
        if not accepts_media_type(request.headers.getlist("accept"), SSE_TYPE):
            return await self._respond_with_page(event_filter, position, start_seq)
        if self._feed.is_closed:
            raise unavailable("this server is stopping", code="stopping")
        if self._stream_count >= STREAM_COUNT_MAX:
            raise unavailable("too many event streams are open; try again")
        start = await self._start_position(position, start_seq)
        stream = self._stream(event_filter, start, request.state.caller.session)
        return StreamingResponse(stream, media_type=SSE_TYPE, headers={"x-accel-buffering": "no"})

    async def _start_position(
        self, position: StreamPosition, start_seq: int | None
    ) -> StreamPosition:
        """Return the position at which a stream starts.

        It is `position` if the client has received an event. Otherwise it is `start_seq`, or the
        newest event if `start_seq` is None.
        """
        epoch = self._feed.epoch if position.epoch is None else position.epoch
        if position.after is not None:
            return position._replace(epoch=epoch)
        if start_seq is not None:  # No mark: a restored backup with the run has these events, too.
            return StreamPosition(start_seq, None, epoch)
        # With its mark: a client that disconnects before its first event resumes with this id.
        seq = self._feed.last_seq
        return StreamPosition(seq, await self._feed.time_of(seq), epoch)

    async def _respond_with_page(
        self, event_filter: EventFilter, position: StreamPosition, start_seq: int | None
    ) -> Response:
        after, at, epoch = position
        run_id = event_filter.run_id
        if after is None:  # Start at the oldest stored event; the epoch does not matter.
            page = await self._feed.read(start_seq or 0, run_id=run_id, or_oldest=True)
            is_gap = page.is_gap and start_seq is not None
        else:
            page = await self._feed.read(after, run_id=run_id, at=at, epoch=epoch)
            is_gap = page.is_gap
        matches = event_filter.predicate()
        texts = [
            entry.packed.text for entry in page.entries if matches is None or matches(entry.event)
        ]
        last = page.entries[-1].event if page.entries else None
        if last is not None and last.seq == page.up_to_seq:
            last_id = event_id(last.seq, last.at)
        else:
            last_id = await self._event_id(page.up_to_seq)
        text = encode_event_page(
            events=texts,
            upto_seq=page.up_to_seq,
            event_id=last_id,
            has_more=page.has_more,
            epoch=page.epoch,
            resync=is_gap,
        )
        return json_response(text)

    async def _stream(
        self, event_filter: EventFilter, start: StreamPosition, session: str | None
    ) -> AsyncIterator[bytes]:
        """Yield the SSE stream from `start`. It begins with `resync` if the history has changed.

        The stream ends when `session` ends. `session` is None if a token authenticated the client.
        """
        matches = event_filter.predicate()
        seq, at, epoch = start.after or 0, start.at, start.epoch or 0
        self._change_stream_count(1)
        try:
            head = f"retry: {RETRY_AFTER_S * 1000}\nepoch: {epoch}\nid: {event_id(seq, at)}\n\n"
            yield head.encode()
            sent_at_s = time.monotonic()
            await self._feed.wait_for_epoch(epoch)
            history = self._feed.history_count
            is_other_event = at is not None and at != await self._feed.time_of(seq)
            while not self._feed.is_closed:
                page = await self._feed.page_after(seq, run_id=event_filter.run_id)
                state = (self._feed.history_count, self._feed.epoch)
                if is_other_event or (history, epoch) != state:
                    page = FeedPage((), self._feed.last_seq, is_gap=True)
                    is_other_event = False
                    history, epoch = state
                if page.up_to_seq == seq and not page.is_gap:
                    await self._feed.wait(
                        seq, timeout_s=sent_at_s + self._ping_interval_s - time.monotonic()
                    )
                if session is not None and self._access.is_session_over(session):
                    return  # A client that reconnects gets 401.
                seq = page.up_to_seq
                resync = (
                    (_encode_resync(seq, await self._event_id(seq), epoch),) if page.is_gap else ()
                )
                for chunk in resync or self._chunks(page, matches):
                    yield chunk
                    sent_at_s = time.monotonic()
                if time.monotonic() - sent_at_s >= self._ping_interval_s:
                    # With the id, so that a client with a filter does not resume far behind.
                    yield f": ping\nid: {await self._event_id(seq)}\n\n".encode()
                    sent_at_s = time.monotonic()
            yield b"event: server_closing\ndata: {}\n\n"
        except InfrastructureError as error:  # Clients reconnect with their last id.
            log.warning("event_stream_failed", extra={"reason": str(error)})
        finally:
            self._change_stream_count(-1)

    async def _event_id(self, seq: int) -> str:
        return event_id(seq, await self._feed.time_of(seq))

    def _change_stream_count(self, difference: int) -> None:
        self._stream_count += difference
        self._metrics.add_open_streams(difference)

    def _chunks(
        self, page: FeedPage[EncodedEvent], matches: Callable[[Event], bool] | None
    ) -> Iterator[bytes]:
        """Yield the matching events in chunks, so that only one chunk per stream is in memory."""
        if matches is None and self._last_chunk[0] is page:
            yield self._last_chunk[1]  # Most streams without a filter are at the same page.
        elif page.entries:
            blocks = [
                entry.packed.sse
                for entry in page.entries
                if matches is None or matches(entry.event)
            ]
            if matches is None and sum(map(len, blocks)) <= CHUNK_BYTE_COUNT_MAX:
                self._last_chunk = (page, b"".join(blocks))
            yield from _to_chunks(blocks)


def _to_chunks(blocks: Sequence[bytes]) -> Iterator[bytes]:
    """Join short SSE blocks and split long ones, so that no chunk exceeds the limit."""
    parts: list[bytes] = []
    length = 0
    for block in blocks:
        if parts and length + len(block) > CHUNK_BYTE_COUNT_MAX:
            yield from _split(b"".join(parts))
            parts, length = [], 0
        parts.append(block)
        length += len(block)
    yield from _split(b"".join(parts))


def _split(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), CHUNK_BYTE_COUNT_MAX):
        yield text[start : start + CHUNK_BYTE_COUNT_MAX]


def _encode_resync(seq: int, last_id: str, epoch: int) -> bytes:
    return f'id: {last_id}\nepoch: {epoch}\nevent: resync\ndata: {{"seq":{seq}}}\n\n'.encode()
