"""Hints across processes on PostgreSQL: a commit of one process reaches another at once.

A second store on the same database, with its own writer and connections, stands for another
process. Where polls are an hour apart, only a hint can cause the observed effect.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from headway import Headway, RunContext
from headway.adapters.sql import notify_listener
from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.core.command.admin.lane_limits import SetLane
from headway.core.command.run.submit import Submit
from headway.core.ids import MAIN_LANE, Key, LaneName, RunId
from headway.core.run.events import Event
from headway.core.run.status import RunStatus
from headway.services.engine import claimer, engine
from headway.services.submit import run_watcher
from headway.services.submit.run_handle import RunHandle
from headway.services.submit.run_watcher import RunWatcher
from tests.contract.backends import open_database
from tests.engine.scenes import open_bare_store
from tests.servers import PostgresServer
from tests.sql.nodes import PostgresNode

HOUR_S = 3_600
OTHER_LANE = LaneName("other")


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[str]:
    with open_database(postgres_server) as name:
        yield name


@pytest.fixture
def url(postgres_server: PostgresServer, database: str) -> str:
    return postgres_server.url(database)


@pytest.fixture
async def elsewhere(url: str) -> AsyncIterator[SqlStore]:
    async with open_bare_store(url) as store:
        yield store


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claimer, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    monkeypatch.setattr(run_watcher, "POLL_S", HOUR_S)


def headway_with_jobs(url: str) -> Headway:
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
    """Submit a run like a process that has not registered the job."""
    run_id = RunId(f"{job}-{asyncio.get_running_loop().time()}")
    await store.apply(Submit(run_id=run_id, key=Key(run_id), job=job, lane=lane))
    watcher = RunWatcher(store, store.runs)
    return RunHandle(run_id, store=store, runs=store.runs, events=store.events, watcher=watcher)


async def wait_until_hinted(listener: SqlStore, committer: SqlStore) -> None:
    """Wait until `listener` receives hints of commits by `committer`; connecting takes time."""
    has_hint = asyncio.Event()

    def note(events: Sequence[Event]) -> None:
        if any(event.lane == OTHER_LANE for event in events):
            has_hint.set()

    stop = listener.listen(note)
    limit = 1
    while not has_hint.is_set():
        limit += 1
        await committer.apply(SetLane(name=OTHER_LANE, max_concurrent=limit))
        await asyncio.sleep(0.05)
    stop()


class HintRecorder:
    """Records the sequence numbers of all events that a store reports from now on."""

    def __init__(self, store: SqlStore) -> None:
        self.seqs: list[int] = []
        self._more = asyncio.Event()
        store.listen(self._note)

    async def wait_for_count(self, count: int) -> None:
        while len(self.seqs) < count:
            self._more.clear()
            await self._more.wait()

    def _note(self, events: Sequence[Event]) -> None:
        self.seqs.extend(event.seq for event in events)
        self._more.set()


async def wait_until_started(run: RunHandle) -> None:
    async for event in run.events():
        if '"to":"running"' in event.payload:
            return


@pytest.mark.proves("R1.3")
@pytest.mark.usefixtures("no_polls")
async def test_a_run_submitted_by_another_process_starts_and_ends_at_once(
    url: str, elsewhere: SqlStore
) -> None:
    async with headway_with_jobs(url) as hw, asyncio.timeout(60):
        await wait_until_hinted(hw.store, elsewhere)
        await wait_until_hinted(elsewhere, hw.store)
        for _ in range(10):
            run = await submit(elsewhere, "echo")
            assert await run.result() == "done"


@pytest.mark.proves("R1.3")
@pytest.mark.usefixtures("no_polls")
async def test_a_run_in_a_lane_that_no_job_names_starts_at_once(
    url: str, elsewhere: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claimer, "ALL_LANES_POLL_S", HOUR_S)
    async with headway_with_jobs(url) as hw, asyncio.timeout(60):
        await wait_until_hinted(hw.store, elsewhere)
        await wait_until_hinted(elsewhere, hw.store)
        for lane in ("aside", "apart", "aside"):
            run = await submit(elsewhere, "echo", lane=LaneName(lane))
            assert await run.result() == "done"


@pytest.mark.proves("I8")
@pytest.mark.usefixtures("no_polls")
async def test_a_cancel_and_a_message_from_another_process_reach_the_job(
    url: str, elsewhere: SqlStore
) -> None:
    async with headway_with_jobs(url) as hw, asyncio.timeout(60):
        await wait_until_hinted(hw.store, elsewhere)
        await wait_until_hinted(elsewhere, hw.store)
        hanging, collecting = await submit(elsewhere, "hang"), await submit(elsewhere, "collect")
        await wait_until_started(hanging)
        await hanging.cancel()
        assert (await hanging.wait_for_end()).run.status is RunStatus.CANCELED
        await wait_until_started(collecting)
        await collecting.send("hi", deliver="when_listening")
        assert await collecting.result() == ["hi"]


@pytest.mark.proves("I8")
async def test_each_process_receives_each_event_once(url: str, elsewhere: SqlStore) -> None:
    async with open_bare_store(url) as here, asyncio.timeout(60):
        await wait_until_hinted(here, elsewhere)
        recorder = HintRecorder(here)
        first_seq = (await here.events.events(after_seq=0, limit=1)).last_seq
        for _ in range(20):
            await asyncio.gather(
                *(submit(store, "echo") for store in (here, elsewhere, here, elsewhere))
            )
        last_seq = (await here.events.events(after_seq=0, limit=1)).last_seq
        await recorder.wait_for_count(last_seq - first_seq)
        await wait_until_hinted(here, elsewhere)  # Any duplicate has arrived by then.
    assert sorted(seq for seq in recorder.seqs if seq <= last_seq) == list(
        range(first_seq + 1, last_seq + 1)
    )


@pytest.mark.proves("I8")
async def test_more_than_a_page_of_events_arrives_in_order(
    url: str, elsewhere: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify_listener, "PAGE_EVENT_COUNT", 3)
    async with open_bare_store(url) as here, asyncio.timeout(60):
        await wait_until_hinted(here, elsewhere)
        recorder = HintRecorder(here)
        await asyncio.gather(*(submit(elsewhere, "echo") for _ in range(50)))
        await recorder.wait_for_count(50)
    assert recorder.seqs == sorted(set(recorder.seqs))


def listener_pid(server: PostgresServer, database: str) -> int:
    """Return the pid of the only connection that has just read notified events."""
    query = "SELECT min(pid) FROM pg_stat_activity WHERE query LIKE '%AS span (first_seq%' AND"
    return int(server.execute(f"{query} pid <> pg_backend_pid() AND datname = '{database}'"))


@pytest.mark.proves("I8")
async def test_a_listener_catches_up_after_its_connection_was_killed(
    url: str,
    elsewhere: SqlStore,
    postgres_server: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claimer, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_S", HOUR_S)
    monkeypatch.setattr(engine, "POLL_ALL_S", HOUR_S)
    async with headway_with_jobs(url) as hw, asyncio.timeout(60):
        await wait_until_hinted(hw.store, elsewhere)
        pid = await asyncio.to_thread(listener_pid, postgres_server, database)
        await asyncio.to_thread(
            postgres_server.execute, f"SELECT pg_terminate_backend({pid}, 5000)"
        )
        run = await submit(elsewhere, "echo")  # Notified while no listener is connected.
        assert await run.result() == "done"


@pytest.mark.proves("I21")
async def test_a_listener_follows_its_process_to_another_node(
    postgres_server: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_database(postgres_server) as second:
        old, new = (PostgresNode(postgres_server, name) for name in (database, second))
        for node in (old, new):
            node.execute("UPDATE stream SET cluster_id = 'ours'")
        here, elsewhere = [await open_store([old.url, new.url]) for _ in range(2)]
        try:
            async with asyncio.timeout(60):
                await wait_until_hinted(here, elsewhere)
                pid = await asyncio.to_thread(listener_pid, postgres_server, database)
                monkeypatch.setattr(notify_listener, "PING_S", 0.1)
                await asyncio.to_thread(fail_over, old, new, pid)
                await elsewhere.apply(SetLane(name=MAIN_LANE, max_concurrent=9))
                await here.apply(SetLane(name=MAIN_LANE, max_concurrent=8))
                await wait_until_hinted(here, elsewhere)
        finally:
            await here.close()
            await elsewhere.close()


def fail_over(old: PostgresNode, new: PostgresNode, pid: int) -> None:
    """Make `new` a copy of `old`, and keep on `old` only the connection with this pid."""
    epoch = old.execute("SELECT epoch FROM stream")
    seq = old.execute("SELECT seq FROM stream")
    new.execute(f"UPDATE stream SET epoch = {epoch}, seq = {seq}")  # noqa: S608
    old.leave()
    query = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE datname"
    old.server.execute(f"{query} = '{old.database}' AND pid <> {pid}")


@pytest.mark.proves("I8")
async def test_foreign_notifications_are_ignored(
    url: str, elsewhere: SqlStore, postgres_server: PostgresServer, database: str
) -> None:
    async with open_bare_store(url) as here, asyncio.timeout(60):
        await wait_until_hinted(here, elsewhere)
        for payload in ("", "rubbish", "a b c", "a 1 -1", "a 1 ²", f"a 1 {'9' * 40}", "a 1 2 3"):
            await asyncio.to_thread(
                postgres_server.execute, f"NOTIFY headway, '{payload}'", database=database
            )
        await wait_until_hinted(here, elsewhere)


@pytest.mark.proves("I8")
async def test_polling_converges_without_any_hint(
    url: str, elsewhere: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listen_to_nothing(self: SqlStore, *_: object, **__: object) -> Callable[[], None]:
        return lambda: None

    monkeypatch.setattr(SqlStore, "listen", listen_to_nothing)
    monkeypatch.setattr(SqlStore, "piggyback", listen_to_nothing)
    monkeypatch.setattr(claimer, "POLL_S", 0.01)
    monkeypatch.setattr(engine, "POLL_S", 0.01)
    monkeypatch.setattr(run_watcher, "POLL_S", 0.01)
    hw = headway_with_jobs(url)
    # An engine polls its runs every third of the lease.
    hw._config = replace(hw._config, lease_ttl_s=0.5)
    async with hw, asyncio.timeout(60):
        run, hanging = await submit(elsewhere, "echo"), await submit(elsewhere, "hang")
        assert await run.result() == "done"
        await wait_until_started(hanging)
        await hanging.cancel()
        assert (await hanging.wait_for_end()).run.status is RunStatus.CANCELED
