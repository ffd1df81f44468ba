"""The event stream: in order, without gaps, resumed after a disconnect, or a resync (I13, I14)."""

import asyncio
import json
import logging
import random
from typing import Any
from urllib.parse import quote

import pytest

from headway.adapters.sql.read.read_events import SqlEventReader
from headway.api.http.access import Access
from headway.api.routes import event_routes as events
from headway.api.routes.metrics import Metrics
from headway.core.command.admin.prune import PruneEvents
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import Instant
from headway.core.run.events import Event
from headway.ports.event_reader import EventSlice
from headway.services.upkeep import event_feed
from headway.services.upkeep.event_feed import EventFeed, FeedEntry, FeedPage
from tests.api.client import Client, parse_seq
from tests.api.conftest import fail_over, served

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I13", "I14")
async def test_client_with_many_disconnects_receives_every_event_once_in_order(
    client: Client,
) -> None:
    for n in range(40):
        await client.submit("echo", key=str(n))
    seen: list[int] = []
    dice = random.Random(7)
    while not seen or seen[-1] < 120:  # Three events per run: queued, running, done.
        last = str(seen[-1] if seen else 0)
        left = dice.randint(1, 6)
        async with client.open_stream("/api/events", last_event_id=last) as events:
            async for event in events:
                seen.append(event.seq)
                assert event.data["seq"] == seen[-1]
                left -= 1
                if left == 0 or seen[-1] >= 120:
                    break
    assert seen == list(range(1, 121))


@pytest.mark.proves("I14")
async def test_stream_resumes_on_a_restarted_server(url: str) -> None:
    async with served(url) as client:
        run_id = await client.submit("echo", key="ann")
        await client.wait_for_end(run_id)
        async with client.open_stream("/api/events?after=0") as events:
            first = [await anext(events) for _ in range(2)]
    async with (
        served(url) as client,
        client.open_stream("/api/events", last_event_id=str(first[-1].id)) as events,
    ):
        event = await anext(events)
        assert (event.seq, event.data["state"]) == (3, "Done")
        await client.submit("echo", key="ann")
        assert (await anext(events)).seq == 4


@pytest.mark.proves("I14")
async def test_client_that_asks_for_pruned_events_receives_resync(url: str) -> None:
    async with served(url) as client:
        for n in range(3):
            await client.wait_for_end(await client.submit("echo", key=str(n)))
        await client.hw.store.apply(PruneEvents(up_to_seq=5))
    async with served(url) as client:  # A new server, which has none of them in memory.
        page = await client.get("/api/events?after=2")
        assert (page["events"], page["resync"], page["upto_seq"]) == ([], True, 9)
        async with client.open_stream("/api/events?after=2") as events:
            event = await anext(events)
            assert (event.event, event.seq) == ("resync", 9)
            await client.submit("echo", key="ann")
            assert (await anext(events)).seq == 10


@pytest.mark.proves("I14")
async def test_client_with_an_id_beyond_the_last_event_receives_resync(client: Client) -> None:
    async with client.open_stream("/api/events", last_event_id="1000") as events:
        event = await anext(events)
    assert (event.event, event.id) == ("resync", "0")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("key=ann", {"ann"}),
        ("lane=main", {"ann", "bob"}),
        ("lane=other", set()),
        ("type=run_state_changed", {"ann", "bob"}),
        ("type=run_log", set()),
    ],
)
async def test_events_are_filtered_by_key_lane_and_type(
    client: Client, query: str, expected: set[str]
) -> None:
    for key in ("ann", "bob"):
        await client.wait_for_end(await client.submit("echo", key=key))
    page = await client.get(f"/api/events?{query}")
    assert {event["key"] for event in page["events"]} == expected
    assert page["upto_seq"] == 6


@pytest.mark.proves("R1.10")
async def test_state_change_events_use_the_state_names_of_runs(client: Client) -> None:
    run_id = await client.submit("echo", key="ann")
    async with client.open_stream(f"/api/runs/{run_id}/events") as events:
        states = [(await anext(events)).data["state"] for _ in range(3)]
    assert states == ["Queued", "Running", "Done"]


@pytest.mark.proves("R4.14")
async def test_filtered_stream_sends_pings_with_new_ids_while_the_server_is_busy(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url, sse_ping_interval_s=0.2) as client:
        await check_pings(client, monkeypatch)


async def check_pings(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def be_busy() -> None:
        while True:
            await client.submit("echo")

    headers = {"accept": "text/event-stream"}
    busy = asyncio.create_task(be_busy())
    async with (
        asyncio.timeout(30),
        client.session.get("/api/events?after=0&key=unused", headers=headers) as answer,
    ):
        ids: list[int] = []
        while len(set(ids)) < 3:  # The first ids may repeat.
            block = (await answer.content.readuntil(b"\n\n")).decode()
            *begin, last = block.strip().splitlines()
            assert begin == ([": ping"] if ids else ["retry: 1000", "epoch: 1"])
            ids.append(parse_seq(last.removeprefix("id: ")))
    busy.cancel()
    assert ids == sorted(ids)
    # The stream resumes from there, although all events before it were pruned.
    await client.hw.store.apply(PruneEvents(up_to_seq=ids[-2]))
    monkeypatch.setattr(event_feed, "BUFFER_COUNT_MAX", 0)
    await client.submit("echo", key="unused")
    path = f"/api/events?key=unused&type=run_state_changed&after={ids[-1]}"
    async with asyncio.timeout(30), client.open_stream(path) as stream:
        assert (await anext(stream)).data["state"] == "Queued"


@pytest.mark.proves("R4.14")
async def test_unfiltered_stream_sends_pings_before_the_first_event(
    url: str,
) -> None:
    headers = {"accept": "text/event-stream"}
    async with (
        asyncio.timeout(20),
        served(url, sse_ping_interval_s=0.05) as client,
        client.session.get("/api/events?after=0", headers=headers) as answer,
    ):
        lines = [(await answer.content.readline()).decode().strip() for _ in range(10)]
    assert lines == ["retry: 1000", "epoch: 1", "id: 0", "", *[": ping", "id: 0", ""] * 2]


@pytest.mark.proves("I13")
async def test_encoded_batch_is_not_reused_for_other_events_with_the_same_numbers(
    client: Client,
) -> None:
    """A database that has lost its last commit assigns the same numbers again."""
    store = client.hw.store
    feed = EventFeed(store, store.events, pack=events.encode_event)
    streams = events.EventStreams(feed, Metrics(), Access(()), ping_interval_s=15)

    for event_type in ("old", "new"):
        event = Event(1, None, None, None, None, event_type, "{}", Instant(0))
        packed = events.encode_event(event)
        batch = FeedPage([FeedEntry(event, packed)], 1)
        for _ in range(2):
            assert b"".join(streams._chunks(batch, None)) == packed.sse


@pytest.mark.proves("I16")
async def test_pages_and_stream_chunks_are_limited_in_bytes(client: Client) -> None:
    for _ in range(3):
        await client.wait_for_end(
            await client.submit("shout", params={"count": 4, "length": 60_000})
        )
    await client.wait_for_end(await client.submit("shout", params={"count": 1, "length": 900_000}))
    last = (await client.get("/api/state"))["seq"]
    seen, after = 0, 0
    while after < last:
        page = await client.get(f"/api/events?after={after}")
        events_ = page["events"]
        assert len(events_) == 1 or len(json.dumps(events_)) < 200_000
        seen, after = seen + len(events_), page["upto_seq"]
    assert seen == last
    async with client.open_stream("/api/events?after=0") as stream:
        ids = [(await anext(stream)).seq for _ in range(last)]
    assert ids == list(range(1, last + 1))


@pytest.mark.proves("I14")
async def test_page_without_a_position_begins_with_the_oldest_stored_event(url: str) -> None:
    async with served(url) as client:
        run_ids = [await client.submit("echo", key=str(n)) for n in range(3)]
        for run_id in run_ids:
            await client.wait_for_end(run_id)
        seqs = [event["seq"] for event in (await client.get("/api/events"))["events"]]
        assert seqs == list(range(1, 10))
        await client.hw.store.apply(PruneEvents(up_to_seq=1))
        page = await client.get("/api/events")
        assert ([event["seq"] for event in page["events"]], page["resync"]) == (seqs[1:], False)
        page = await client.get(f"/api/runs/{run_ids[0]}/events")
        states = [event["state"] for event in page["events"]]
        assert (states, page["resync"]) == (["Running", "Done"], True)
        page = await client.get(f"/api/runs/{run_ids[2]}/events")
        assert (len(page["events"]), page["resync"]) == (3, False)


@pytest.mark.proves("I20")
async def test_stream_that_cannot_read_the_database_ends_without_a_traceback(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(**_: object) -> EventSlice:
        raise DatabaseUnavailable({"database": "unreachable"})

    await client.wait_for_end(await client.submit("echo"))
    monkeypatch.setattr(client.hw.store.events, "events", fail)
    with caplog.at_level(logging.INFO):
        async with asyncio.timeout(20), client.open_stream("/api/events?after=1000") as stream:
            assert [event async for event in stream] == []
    assert [record.exc_info for record in caplog.records if record.exc_info] == []
    assert "event_stream_failed" in caplog.text


@pytest.mark.parametrize("event_type", ["-3.7e16", "two words", "", "false"])
async def test_invalid_event_type_is_refused(client: Client, event_type: str) -> None:
    refused = await client.get(f"/api/events?type={quote(event_type)}")
    assert (refused.status, refused.body["path"]) == (422, "type[0]")


@pytest.mark.proves("I15")
@pytest.mark.parametrize("accept", [{}, {"accept": "text/event-stream"}])
@pytest.mark.parametrize("name", ["run_id", "key", "lane"])
async def test_empty_filter_is_refused_for_pages_and_streams(
    client: Client, name: str, accept: dict[str, str]
) -> None:
    refused = await client.get(f"/api/events?{name}=", **accept)
    assert (refused.status, refused.body["path"]) == (422, name)


@pytest.mark.parametrize(
    ("accept", "is_stream"),
    [
        ("text/event-stream", True),
        ("Text/Event-Stream", True),
        ("application/json;q=0.5, text/event-stream; charset=utf-8; q=0.9", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream ; Q=0.000, */*", False),
        ("text/event-streams", False),
        ("*/*", False),
        ('text/plain;is="not, text/event-stream, and \\", nor this,"', False),
    ],
)
async def test_stream_is_sent_only_if_the_accept_header_includes_event_stream(
    client: Client, accept: str, *, is_stream: bool
) -> None:
    async with client.session.get("/api/events", headers={"accept": accept}) as answer:
        assert answer.content_type == ("text/event-stream" if is_stream else "application/json")


@pytest.mark.proves("I14")
async def test_open_stream_receives_resync_after_a_failover(url: str) -> None:
    """A failover may lose the last events, and their numbers are then used for other events."""
    async with served(url) as client:
        await client.wait_for_end(await client.submit("echo"))
        async with client.open_stream("/api/events?after=3") as stream:
            fail_over(url)
            event = await anext(stream)
            assert (event.event, event.seq) == ("resync", 3)
            await client.submit("echo")
            assert (await anext(stream)).seq == 4


@pytest.mark.proves("I14")
async def test_client_disconnected_during_a_failover_receives_resync(url: str) -> None:
    async with served(url) as client:
        await client.wait_for_end(await client.submit("echo"))
        before = await client.get("/api/state")
        page = await client.get("/api/events?after=3")
        assert (before["seq"], before["epoch"], page["epoch"]) == (3, 1, 1)
    fail_over(url)
    async with served(url) as client:
        run_id = await client.submit("echo")
        await client.wait_for_end(run_id)
        for path in ("/api/events", f"/api/runs/{run_id}/events"):
            async with client.open_stream(f"{path}?epoch=1", last_event_id="3") as stream:
                assert (await anext(stream)).event == "resync"
            page = await client.get(f"{path}?epoch=1&after=3")
            assert (page["events"], page["resync"], page["epoch"]) == ([], True, 2)
            for query in ("?epoch=2", ""):
                async with client.open_stream(f"{path}{query}", last_event_id="3") as stream:
                    assert (await anext(stream)).seq == 4
                assert not (await client.get(f"{path}{query}", last_event_id="3"))["resync"]
        assert (await client.get("/api/state"))["epoch"] == 2


@pytest.mark.proves("I14")
@pytest.mark.parametrize(("epoch", "expected"), [(2, "run_state_changed"), (3, "resync")])
async def test_client_with_a_newer_epoch_than_the_server_resumes(
    url: str, monkeypatch: pytest.MonkeyPatch, epoch: int, expected: str
) -> None:
    """A client with an epoch that never existed receives `resync`."""
    monkeypatch.setattr(event_feed, "POLL_S", 3_600.0)  # The feed reads only when it is notified.
    async with asyncio.timeout(30), served(url) as client:
        await client.wait_for_end(await client.submit("echo"))
        fail_over(url)
        assert (await client.get("/api/state"))["epoch"] == 2
        async with client.open_stream(f"/api/events?after=3&epoch={epoch}") as stream:
            await client.submit("echo")
            assert (await anext(stream)).event == expected


async def test_filtered_page_reports_whether_more_events_follow(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("ann", "bob"):
        await client.wait_for_end(await client.submit("echo", key=key))
    monkeypatch.setattr(event_feed, "PAGE_SIZE", 2)
    pages = [await client.get("/api/events?key=bob&after=0")]
    while pages[-1]["has_more"]:
        pages.append(await client.get(f"/api/events?key=bob&after={pages[-1]['upto_seq']}"))
    assert [len(page["events"]) for page in pages] == [0, 1, 2]


@pytest.mark.proves("I16")
async def test_page_that_ends_with_an_event_is_read_with_one_query(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(url) as client:
        await client.wait_for_end(await client.submit("echo"))
    monkeypatch.setattr(event_feed, "PAGE_SIZE", 2)
    read = SqlEventReader.events
    offsets: list[int] = []

    async def count_reads(reader: SqlEventReader, **arguments: Any) -> EventSlice:
        offsets.append(arguments["after_seq"])
        return await read(reader, **arguments)

    monkeypatch.setattr(SqlEventReader, "events", count_reads)
    async with served(url) as client:  # It holds no events in memory.
        page = await client.get("/api/events?after=0")
        assert (parse_seq(page["event_id"]), page["has_more"]) == (2, True)
        assert "-" in page["event_id"]
        assert 2 not in offsets
