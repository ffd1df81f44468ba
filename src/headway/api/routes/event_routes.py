"""`/api/events`: the one stream, live as SSE or a page at a time as JSON.

A client takes the snapshot, then follows from its `seq`. Ids rise without a gap as long as nothing
is filtered out. After a cut it resumes with its last id; what it can no longer be given is told
by one `resync`, and the snapshot is where to begin again.

An id is the number of the event and a mark of it, `42-643f1c…`. After a backup is restored, other
events get numbers that were used before. A client that resumes with the id of an event that does
not exist receives `resync`. A plain number is also accepted, without that check.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, Field

from headway.api.headway_api import HeadwayApi
from headway.api.http.accept import accepts_media_type
from headway.api.http.access import Access
from headway.api.http.cursor import INT64_MAX
from headway.api.http.problem import RETRY_AFTER_S, unavailable
from headway.api.http.responses import json_response, problem_responses
from headway.api.http.strict import StrictRoute
from headway.api.routes.metrics import Metrics
from headway.api.routes.run_routes import RunIdPath, RunIdQuery
from headway.api.wire.api_models import EVENT_STREAM, EventPage, Name
from headway.api.wire.views import event_view, to_json_array
from headway.core.errors import InfrastructureError
from headway.core.ids import Instant, RunId
from headway.core.run.events import JSON_LITERALS, TYPE_LENGTH_MAX, TYPE_PATTERN, Event
from headway.log import event_log
from headway.services.upkeep.event_feed import EventFeed, FeedPage

SSE_TYPE: Final = "text/event-stream"
CHUNK_BYTE_COUNT_MAX: Final = 128 << 10
STREAM_COUNT_MAX: Final = 2_000

log = event_log(__name__)

EVENT_ID_PATTERN: Final = r"^[0-9]{1,19}(-[0-9a-f]{1,16})?$"
"""The number of an event and, if known, a mark of that event.

    After a backup is restored, another event may have the number. The mark distinguishes them.
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
        description="In which the place is known: in another one it is a `resync`.",
    ),
]
LastEventId = Annotated[
    str | None, Header(pattern=EVENT_ID_PATTERN, description="The id of the last event seen.")
]


def _check_type(word: str) -> str:
    if word in JSON_LITERALS:
        raise ValueError("must be the type of an event")
    return word


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
    """An event as it is sent, made once for all who watch."""

    sse: bytes
    head_length: int

    def __len__(self) -> int:
        return len(self.sse)

    @property
    def text(self) -> str:
        """As JSON."""
        return self.sse[self.head_length : -2].decode()


def encode_event(event: Event) -> EncodedEvent:
    head = (
        f"id: {event_id(event.seq, event.at)}\nevent: {_to_printable(event.type)}\ndata: ".encode()
    )
    # JSON has no line breaks of its own, and a type is one of ours or a checked word.
    return EncodedEvent(head + f"{event_view(event)}\n\n".encode(), len(head))


def event_id(seq: int, at: Instant | None) -> str:
    return str(seq) if at is None else f"{seq}-{at:x}"


def _to_printable(kind: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in kind)


@dataclass(frozen=True, slots=True)
class EventFilter:
    run_id: RunId | None
    key: str | None
    lane: str | None
    types: frozenset[str]

    def predicate(self) -> Callable[[Event], bool] | None:
        """None: everything is wanted."""
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


def events_router(
    face: HeadwayApi, feed: EventFeed[EncodedEvent], metrics: Metrics, access: Access
) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["events"], route_class=StrictRoute)
    streams = EventStreams(feed, metrics, access, ping_interval_s=face.timeouts.sse_ping_interval_s)
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "model": EventPage,
            "content": {SSE_TYPE: EVENT_STREAM},
            "description": "A page as JSON, or with `Accept: text/event-stream` the live stream.",
        }
    }

    @router.get("/events", response_class=Response, responses={**answers, **problem_responses()})
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
        """What happens, in order. Without `after` a stream begins now, and a page at the start."""
        wanted = EventFilter(
            None if run_id is None else RunId(run_id), key, lane, frozenset(type or ())
        )
        return await streams.respond(request, wanted, _parse_position(after, last_event_id, epoch))

    @router.get(
        "/runs/{run_id}/events",
        response_class=Response,
        responses={**answers, **problem_responses(404)},
    )
    async def run_events(
        request: Request,
        run_id: RunIdPath,
        after: After = None,
        epoch: Epoch = None,
        last_event_id: LastEventId = None,
    ) -> Response:
        """What happens to one run; from its beginning, unless told."""
        record = await face.run(run_id).record()
        wanted = EventFilter(RunId(run_id), None, None, frozenset())
        # Its first event has the run's own seq: what was pruned before is not missing here.
        begin = record.run.seq - 1
        place = _parse_position(after, last_event_id, epoch)
        return await streams.respond(request, wanted, place, start_seq=begin)

    return router


class StreamPosition(NamedTuple):
    """What a client says that it knows."""

    after: int | None
    at: Instant | None
    """When that event was written, or None if the id has no mark."""
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
        wanted: EventFilter,
        place: StreamPosition,
        *,
        start_seq: int | None = None,
    ) -> Response:
        """`begin` is where what is wanted has its beginning; None: with the stream itself."""
        if not accepts_media_type(request.headers.getlist("accept"), SSE_TYPE):
            return await self._respond_with_page(wanted, place, start_seq)
        if self._feed.is_closed:
            raise unavailable("this server is stopping", code="stopping")
        if self._stream_count >= STREAM_COUNT_MAX:
            raise unavailable("too many streams are open")
        stream = self._stream(
            wanted, await self._start_position(place, start_seq), request.state.caller.session
        )
        return StreamingResponse(stream, media_type=SSE_TYPE, headers={"x-accel-buffering": "no"})

    async def _start_position(self, place: StreamPosition, begin: int | None) -> StreamPosition:
        """Return where a stream starts: at `place`, or if it names no event, at `begin` or now."""
        epoch = self._feed.epoch if place.epoch is None else place.epoch
        if place.after is not None:
            return place._replace(epoch=epoch)
        if begin is not None:  # A backup that has the run has all events before it.
            return StreamPosition(begin, None, epoch)
        # With its mark: a client that is cut off before its first event resumes with this id.
        seq = self._feed.last_seq
        return StreamPosition(seq, await self._feed.time_of(seq), epoch)

    async def _respond_with_page(
        self, wanted: EventFilter, place: StreamPosition, begin: int | None
    ) -> Response:
        after, at, epoch = place
        if after is None:  # Then what is kept is meant, from its beginning, whatever was known.
            batch = await self._feed.read(begin or 0, run_id=wanted.run_id, or_oldest=True)
            is_gap = batch.is_gap and begin is not None
        else:
            batch = await self._feed.read(after, run_id=wanted.run_id, at=at, epoch=epoch)
            is_gap = batch.is_gap
        has = wanted.predicate()
        texts = (one.packed.text for one in batch.entries if has is None or has(one.event))
        has_more, resync = json.dumps(batch.has_more), json.dumps(is_gap)
        last = batch.entries[-1].event if batch.entries else None
        if last is not None and last.seq == batch.up_to_seq:
            upto_id = event_id(last.seq, last.at)
        else:
            upto_id = await self._event_id(batch.up_to_seq)
        return json_response(
            f'{{"events":{to_json_array(texts)},"upto_seq":{batch.up_to_seq},"event_id":"{upto_id}"'
            f',"has_more":{has_more}'
            f',"epoch":{batch.epoch},"resync":{resync}}}'
        )

    async def _stream(
        self, wanted: EventFilter, start: StreamPosition, session: str | None
    ) -> AsyncIterator[bytes]:
        """Stream from `start`, or begin with `resync` if the history has changed since.

        `session` is the session of the watcher, or None if it has none that could end.
        """
        has = wanted.predicate()
        seq, at, epoch = start.after or 0, start.at, start.epoch or 0
        self._change_stream_count(1)
        try:
            head = f"retry: {RETRY_AFTER_S * 1000}\nepoch: {epoch}\nid: {event_id(seq, at)}\n\n"
            yield head.encode()
            said_at_s = time.monotonic()
            await self._feed.wait_for_epoch(epoch)
            history = self._feed.history_count
            is_other = at is not None and at != await self._feed.time_of(seq)
            while not self._feed.is_closed:
                batch = await self._feed.page_after(seq, run_id=wanted.run_id)
                if is_other or (history, epoch) != (self._feed.history_count, self._feed.epoch):
                    batch = FeedPage((), self._feed.last_seq, is_gap=True)
                    is_other, history = False, self._feed.history_count
                    epoch = self._feed.epoch
                if batch.up_to_seq == seq and not batch.is_gap:
                    await self._feed.wait(
                        seq, timeout_s=said_at_s + self._ping_interval_s - time.monotonic()
                    )
                if session is not None and self._access.is_session_over(session):
                    return  # Whoever comes back is told that a token is needed.
                seq = batch.up_to_seq
                resync = (
                    (_encode_resync(seq, await self._event_id(seq), epoch),) if batch.is_gap else ()
                )
                for chunk in resync or self._chunks(batch, has):
                    yield chunk
                    said_at_s = time.monotonic()
                if time.monotonic() - said_at_s >= self._ping_interval_s:
                    # With the id, or who waits for other events would resume from far behind.
                    yield f": ping\nid: {await self._event_id(seq)}\n\n".encode()
                    said_at_s = time.monotonic()
            yield b"event: server_closing\ndata: {}\n\n"
        except InfrastructureError as error:  # Whoever reads comes back with the last id.
            log.warning("stream_ended", extra={"reason": str(error)})
        finally:
            self._change_stream_count(-1)

    async def _event_id(self, seq: int) -> str:
        return event_id(seq, await self._feed.time_of(seq))

    def _change_stream_count(self, difference: int) -> None:
        self._stream_count += difference
        self._metrics.add_open_streams(difference)

    def _chunks(
        self, batch: FeedPage[EncodedEvent], has: Callable[[Event], bool] | None
    ) -> Iterator[bytes]:
        """What is sent of it, in pieces: only the one under way is in memory for one watcher."""
        if has is None and self._last_chunk[0] is batch:
            yield self._last_chunk[1]  # Most watchers are at the same place.
        elif batch.entries:
            sent = [one.packed.sse for one in batch.entries if has is None or has(one.event)]
            if has is None and sum(map(len, sent)) <= CHUNK_BYTE_COUNT_MAX:
                self._last_chunk = (batch, b"".join(sent))
            yield from _to_chunks(sent)


def _to_chunks(sent: Sequence[bytes]) -> Iterator[bytes]:
    """All of it, many short ones together and a long one in parts."""
    parts: list[bytes] = []
    length = 0
    for one in sent:
        if parts and length + len(one) > CHUNK_BYTE_COUNT_MAX:
            yield from _split(b"".join(parts))
            parts, length = [], 0
        parts.append(one)
        length += len(one)
    yield from _split(b"".join(parts))


def _split(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), CHUNK_BYTE_COUNT_MAX):
        yield text[start : start + CHUNK_BYTE_COUNT_MAX]


def _encode_resync(seq: int, place_id: str, epoch: int) -> bytes:
    return f'id: {place_id}\nepoch: {epoch}\nevent: resync\ndata: {{"seq":{seq}}}\n\n'.encode()
