"""The stream: in order, without gaps, resumed where it was cut, or one resync (I13, I14)."""

import random

import pytest

from headway.core.command.prune import PruneEvents
from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")


async def test_i13_i14_a_client_that_is_cut_again_and_again_sees_every_event_once_in_order(
    client: Client,
) -> None:
    for n in range(40):
        await client.submitted("echo", key=str(n))
    seen: list[int] = []
    dice = random.Random(7)
    while not seen or seen[-1] < 120:  # Queued, running, done: three for each run.
        last = str(seen[-1] if seen else 0)
        left = dice.randint(1, 6)
        async with client.streamed("/api/events", last_event_id=last) as events:
            async for event in events:
                seen.append(int(event.id or 0))
                assert event.data["seq"] == seen[-1]
                left -= 1
                if left == 0 or seen[-1] >= 120:
                    break
    assert seen == list(range(1, 121))


async def test_i14_a_restarted_server_goes_on_where_the_client_was(url: str) -> None:
    async with served(url) as client:
        run_id = await client.submitted("echo", key="ann")
        await client.ended(run_id)
        async with client.streamed("/api/events?after=0") as events:
            first = [await anext(events) for _ in range(2)]
    async with (
        served(url) as client,
        client.streamed("/api/events", last_event_id=str(first[-1].id)) as events,
    ):
        event = await anext(events)
        assert (event.id, event.data["state"]) == ("3", "Done")
        await client.submitted("echo", key="ann")
        assert (await anext(events)).id == "4"


async def test_i14_who_asks_for_what_was_pruned_is_told_to_take_the_snapshot(url: str) -> None:
    async with served(url) as client:
        for n in range(3):
            await client.ended(await client.submitted("echo", key=str(n)))
        await client.hw.store.apply(PruneEvents(up_to_seq=5))
    async with served(url) as client:  # One that does not remember them.
        page = await client.get("/api/events?after=2")
        assert (page["events"], page["resync"], page["upto_seq"]) == ([], True, 9)
        async with client.streamed("/api/events?after=2") as events:
            told = await anext(events)
            assert (told.event, told.id) == ("resync", "9")
            await client.submitted("echo", key="ann")
            assert (await anext(events)).id == "10"


async def test_i14_an_id_from_the_future_is_told_to_take_the_snapshot(client: Client) -> None:
    async with client.streamed("/api/events", last_event_id="1000") as events:
        told = await anext(events)
    assert (told.event, told.id) == ("resync", "0")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("key=ann", {"ann"}),
        ("lane=main", {"ann", "bob"}),
        ("lane=other", set()),
        ("type=run_state_changed", {"ann", "bob"}),
        ("type=run_log", set()),
    ],
)
async def test_a_stream_can_be_filtered(client: Client, wanted: str, expected: set[str]) -> None:
    for key in ("ann", "bob"):
        await client.ended(await client.submitted("echo", key=key))
    page = await client.get(f"/api/events?{wanted}")
    assert {event["key"] for event in page["events"]} == expected
    assert page["upto_seq"] == 6


async def test_r1_10_state_changes_carry_the_words_of_the_row(client: Client) -> None:
    run_id = await client.submitted("echo", key="ann")
    async with client.streamed(f"/api/runs/{run_id}/events") as events:
        states = [(await anext(events)).data["state"] for _ in range(3)]
    assert states == ["Queued", "Running", "Done"]
