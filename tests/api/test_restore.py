"""After a restore, a client that has followed the lost history receives `resync` (I14)."""

import shutil
from pathlib import Path

import pytest

from tests.api.client import Client
from tests.api.conftest import served

pytestmark = pytest.mark.backend("sqlite")


async def add_runs(client: Client, count: int, prefix: str) -> str:
    """Add runs that end at once, three events each; return the id of the last event."""
    for number in range(count):
        await client.wait_for_end(await client.submit("echo", key=f"{prefix}-{number}"))
    return str((await client.get("/api/state"))["event_id"])


async def read_start_id(client: Client) -> str:
    """Return the first id of a stream that was requested without a position."""
    headers = {"accept": "text/event-stream"}
    async with client.session.get("/api/events", headers=headers) as answer:
        *_, line = (await answer.content.readuntil(b"\n\n")).decode().split()
    return line


class Restored:
    """A server on a database that was restored from a backup after its followers had read on."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._file = Path(url.removeprefix("sqlite:///"))
        self._backup = self._file.with_name("backup.db")
        self.start_id = ""
        """The first id of a stream after the backup that was cut off before its first event."""

    async def prepare(self) -> tuple[str, str]:
        """Return an id from before the backup, and one from after it, both of the old history."""
        async with served(self.url) as client:
            before_id = await add_runs(client, 2, "saved")
        shutil.copy(self._file, self._backup)
        async with served(self.url) as client:
            after_id = await add_runs(client, 2, "lost")
            self.start_id = await read_start_id(client)
        for path in self._file.parent.glob(f"{self._file.name}-*"):
            path.unlink()
        shutil.copy(self._backup, self._file)
        return before_id, after_id


@pytest.mark.proves("I14")
@pytest.mark.parametrize("count", [0, 1, 3], ids=["nothing new", "fewer", "more than were lost"])
async def test_client_whose_last_event_was_lost_receives_resync_after_a_restore(
    url: str, count: int
) -> None:
    before_id, lost_id = await Restored(url).prepare()
    async with served(url) as client:
        head_id = await add_runs(client, count, "new")
        async with client.open_stream("/api/events", last_event_id=lost_id) as events:
            event = await anext(events)
            assert (event.event, event.id) == ("resync", head_id)
        assert (await client.get(f"/api/events?after={lost_id}"))["resync"]
        # A client whose last event is in the backup reads on.
        page = await client.get(f"/api/events?after={before_id}")
        assert not page["resync"]
        assert (len(page["events"]), page["event_id"]) == (3 * count, head_id)
        await client.submit("echo", key="next")
        async with client.open_stream("/api/events", last_event_id=before_id) as events:
            assert (await anext(events)).seq == 7


@pytest.mark.proves("I14")
async def test_client_cut_off_before_its_first_event_receives_resync_after_a_restore(
    url: str,
) -> None:
    restored = Restored(url)
    _, lost_id = await restored.prepare()
    assert restored.start_id == lost_id
    async with served(url) as client:
        head_id = await add_runs(client, 3, "new")
        async with client.open_stream("/api/events", last_event_id=restored.start_id) as events:
            event = await anext(events)
            assert (event.event, event.id) == ("resync", head_id)


@pytest.mark.proves("I14")
async def test_client_with_a_number_beyond_the_restored_stream_receives_resync(url: str) -> None:
    """A client that stores only the number receives `resync` if the stream is shorter."""
    _, lost_id = await Restored(url).prepare()
    number = lost_id.partition("-")[0]
    async with served(url) as client:
        async with client.open_stream("/api/events", last_event_id=number) as events:
            assert (await anext(events)).event == "resync"
        await client.submit("echo", key="next")
        async with client.open_stream("/api/events", last_event_id="6") as events:
            assert (await anext(events)).seq == 7
