"""Hints across processes, on PostgreSQL: what one commits, another hears of at once.

Another store on the same database, with a writer and connections of its own, stands for another
process. Where polls are an hour apart, only a hint can have done it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import pytest

from headway import Headway, RunContext
from headway.adapters.sql import notify_listener as ear
from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.command.admin.set_lane import SetLane
from headway.core.command.run.submit import Submit
from headway.core.ids import MAIN_LANE, Key, LaneName, RunId
from headway.core.run.events import Event
from headway.core.run.status import RunStatus
from headway.services.engine import claimer as claiming
from headway.services.engine import engine
from headway.services.submit import run_watcher as news
from headway.services.submit.admit import admit
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.run_watcher import RunWatcher
from tests.contract.backends import database_on
from tests.engine.scenes import looked_at
from tests.servers import PostgresServer
from tests.sql.nodes import PostgresNode

HOUR_S = 3_600
OTHER_LANE = LaneName("other")


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    with database_on(postgres_server) as name:
        yield name


@pytest.fixture
def url(postgres_server: PostgresServer, database: str) -> str:
    return postgres_server.url(database)


@pytest.fixture
async def elsewhere(url: str) -> AsyncIterator[SqlStore]:
    async with looked_at(url) as store:
        yield store


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    monkeypatch.setattr(news, "POLL_S", HOUR_S)


def with_jobs(url: str) -> Headway:
    hw = Headway(url, lease_ttl_s=HOUR_S)

    @hw.job()
    async def echo(ctx: RunContext) -> str:
        return "done"

    @hw.job()
    async def collect(ctx: RunContext) -> list[str]:
        await ctx.progress(waits=True)
        while not (messages := await ctx.messages()):
            await ctx.sleep(0.01)
        return [str(message) for message in messages]

    @hw.job()
    async def hang(ctx: RunContext) -> None:
        await asyncio.Event().wait()

    return hw


async def submit(store: SqlStore, job: str, *, lane: LaneName = MAIN_LANE) -> RunHandle:
    """As a process does that has not registered the job."""
    run_id = RunId(f"{job}-{asyncio.get_running_loop().time()}")
    await admit(store, Submit(run_id=run_id, key=Key(run_id), job=job, lane=lane))
    shared = RunWatcher(store, store.runs)
    return RunHandle(run_id, store=store, runs=store.runs, events=store.events, watcher=shared)


async def until_heard(listener: SqlStore, speaker: SqlStore) -> None:
    """Wait until `listener` hears what `speaker` commits: to connect takes a moment."""
    heard = asyncio.Event()

    def note(events: Sequence[Event]) -> None:
        if any(event.lane == OTHER_LANE for event in events):
            heard.set()

    stop = listener.listen(note)
    limit = 1
    while not heard.is_set():
        limit += 1
        await speaker.apply(SetLane(name=OTHER_LANE, max_concurrent=limit))
        await asyncio.sleep(0.05)
    stop()


class Heard:
    """The numbers of the events of which a store tells from now on."""

    def __init__(self, store: SqlStore) -> None:
        self.seqs: list[int] = []
        self._more = asyncio.Event()
        store.listen(self._note)

    async def reaches(self, count: int) -> None:
        while len(self.seqs) < count:
            self._more.clear()
            await self._more.wait()

    def _note(self, events: Sequence[Event]) -> None:
        self.seqs.extend(event.seq for event in events)
        self._more.set()


async def started(run: RunHandle) -> None:
    async for event in run.events():
        if '"to":"running"' in event.payload:
            return


@pytest.mark.proves("R1.3")
@pytest.mark.usefixtures("no_polls")
async def test_what_another_process_submits_starts_at_once_and_its_end_is_heard(
    url: str, elsewhere: SqlStore
) -> None:
    async with with_jobs(url) as hw, asyncio.timeout(60):
        await until_heard(hw.store, elsewhere)
        await until_heard(elsewhere, hw.store)
        for _ in range(10):
            run = await submit(elsewhere, "echo")
            assert await run.result() == "done"


@pytest.mark.proves("R1.3")
@pytest.mark.usefixtures("no_polls")
async def test_so_does_what_is_in_a_lane_that_no_job_names(
    url: str, elsewhere: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "ALL_LANES_POLL_S", HOUR_S)
    async with with_jobs(url) as hw, asyncio.timeout(60):
        await until_heard(hw.store, elsewhere)
        await until_heard(elsewhere, hw.store)
        for lane in ("aside", "apart", "aside"):
            run = await submit(elsewhere, "echo", lane=LaneName(lane))
            assert await run.result() == "done"


@pytest.mark.proves("I8")
@pytest.mark.usefixtures("no_polls")
async def test_a_cancel_and_a_message_from_another_process_reach_the_job(
    url: str, elsewhere: SqlStore
) -> None:
    async with with_jobs(url) as hw, asyncio.timeout(60):
        await until_heard(hw.store, elsewhere)
        await until_heard(elsewhere, hw.store)
        hanging, collecting = await submit(elsewhere, "hang"), await submit(elsewhere, "collect")
        await started(hanging)
        await hanging.cancel()
        assert (await hanging.wait_for_end()).run.status is RunStatus.CANCELED
        await started(collecting)
        await collecting.send("hi", deliver="when_listening")
        assert await collecting.result() == ["hi"]


@pytest.mark.proves("I8")
async def test_each_process_hears_each_event_once(url: str, elsewhere: SqlStore) -> None:
    async with looked_at(url) as here, asyncio.timeout(60):
        await until_heard(here, elsewhere)
        heard = Heard(here)
        begun = (await here.events.events(after_seq=0, limit=1)).last_seq
        for _ in range(20):
            await asyncio.gather(
                *(submit(store, "echo") for store in (here, elsewhere, here, elsewhere))
            )
        ended = (await here.events.events(after_seq=0, limit=1)).last_seq
        await heard.reaches(ended - begun)
        await until_heard(here, elsewhere)  # Whatever would come twice has come by then.
    assert sorted(seq for seq in heard.seqs if seq <= ended) == list(range(begun + 1, ended + 1))


@pytest.mark.proves("I8")
async def test_more_than_a_page_is_heard_in_order(
    url: str, elsewhere: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ear, "PAGE_COUNT", 3)
    async with looked_at(url) as here, asyncio.timeout(60):
        await until_heard(here, elsewhere)
        heard = Heard(here)
        await asyncio.gather(*(submit(elsewhere, "echo") for _ in range(50)))
        await heard.reaches(50)
    assert heard.seqs == sorted(set(heard.seqs))


def ear_of(server: PostgresServer, database: str) -> int:
    """The one connection that has just read what others said."""
    query = "SELECT min(pid) FROM pg_stat_activity WHERE query LIKE '%AS said (first_seq%' AND"
    return int(server.execute(f"{query} pid <> pg_backend_pid() AND datname = '{database}'"))


@pytest.mark.proves("I8")
async def test_a_listener_whose_connection_was_killed_catches_up(
    url: str,
    elsewhere: SqlStore,
    postgres_server: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claiming, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    async with with_jobs(url) as hw, asyncio.timeout(60):
        await until_heard(hw.store, elsewhere)
        listening = await asyncio.to_thread(ear_of, postgres_server, database)
        await asyncio.to_thread(
            postgres_server.execute, f"SELECT pg_terminate_backend({listening}, 5000)"
        )
        run = await submit(elsewhere, "echo")  # Said while nobody listens.
        assert await run.result() == "done"


@pytest.mark.proves("I21")
async def test_a_listener_follows_when_its_process_moves_to_another_node(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_on(postgres_server) as second:
        old, new = (PostgresNode(postgres_server, name) for name in (database, second))
        for node in (old, new):
            node.execute("UPDATE stream SET cluster_id = 'ours'")
        here, elsewhere = [await open_store([old.url, new.url]) for _ in range(2)]
        try:
            async with asyncio.timeout(60):
                await until_heard(here, elsewhere)
                listening = await asyncio.to_thread(ear_of, postgres_server, database)
                monkeypatch.setattr(ear, "ASK_S", 0.1)
                await asyncio.to_thread(move, old, new, listening)
                await elsewhere.apply(SetLane(name=MAIN_LANE, max_concurrent=9))
                await here.apply(SetLane(name=MAIN_LANE, max_concurrent=8))
                await until_heard(here, elsewhere)
        finally:
            await here.close()
            await elsewhere.close()


def move(old: PostgresNode, new: PostgresNode, listening: int) -> None:
    """Make `new` what a replica of `old` would be; `old` goes on for the one who listens there."""
    epoch = old.execute("SELECT epoch FROM stream")
    seq = old.execute("SELECT seq FROM stream")
    new.execute(f"UPDATE stream SET epoch = {epoch}, seq = {seq}")  # noqa: S608
    old.leave()
    query = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname"
    old.server.execute(f"{query} = '{old.database}' AND pid <> {listening}")


@pytest.mark.proves("I8")
async def test_a_word_that_is_not_ours_is_ignored(
    url: str, elsewhere: SqlStore, postgres_server: PostgresServer, database: str
) -> None:
    async with looked_at(url) as here, asyncio.timeout(60):
        await until_heard(here, elsewhere)
        for word in ("", "rubbish", "a b c", "a 1 -1", "a 1 ²", f"a 1 {'9' * 40}", "a 1 2 3"):
            await asyncio.to_thread(
                postgres_server.execute, f"NOTIFY headway, '{word}'", database=database
            )
        await until_heard(here, elsewhere)


@pytest.mark.proves("I8")
async def test_with_every_hint_lost_polling_still_converges(
    url: str, elsewhere: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear_nothing(self: SqlStore, *_: object, **__: object) -> Callable[[], None]:
        return lambda: None

    monkeypatch.setattr(SqlStore, "listen", hear_nothing)
    monkeypatch.setattr(SqlStore, "accompany", hear_nothing)
    monkeypatch.setattr(claiming, "POLL_S", 0.01)
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    monkeypatch.setattr(news, "POLL_S", 0.01)
    hw = with_jobs(url)
    hw._lease_ttl_s = 0.5  # A third of it is how often an engine looks after its runs.
    async with hw, asyncio.timeout(60):
        run, hanging = await submit(elsewhere, "echo"), await submit(elsewhere, "hang")
        assert await run.result() == "done"
        await started(hanging)
        await hanging.cancel()
        assert (await hanging.wait_for_end()).run.status is RunStatus.CANCELED
