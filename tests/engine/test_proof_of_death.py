"""A dead process on this host is detected by its free lock, long before its lease expires.

Every lease here lasts for hours, so each takeover happened because of a proof.
"""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headway import Headway, RunContext
from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.system import file_life_lock as life_lock
from headway.bootstrap import SystemClock, build_life_lock
from headway.core.command.run.submit import Submit
from headway.core.ids import Key, RunId
from headway.core.run.run import DEATH_COUNT_MAX, Run
from headway.core.run.status import RunStatus
from headway.services.engine.sweep import sweep
from tests.engine.holder import LEASE_S, Holder
from tests.engine.scenes import open_bare_store

RUN_ID = RunId("held")
on_sqlite = pytest.mark.parametrize("backend", ["sqlite"])
on_all = pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a private runtime folder, because locks of server databases are stored there."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[SqlStore]:
    async with open_bare_store(database_url) as store:
        yield store


@pytest.fixture
def a_holder(database_url: str) -> Iterator[Callable[[], Holder]]:
    holders: list[Holder] = []

    def make() -> Holder:
        holders.append(Holder(database_url))
        return holders[-1]

    yield make
    for holder in holders:
        holder.kill()


@pytest.fixture
async def holder(store: SqlStore, a_holder: Callable[[], Holder]) -> Holder:
    """Return a process that has started the run."""
    await store.apply(Submit(run_id=RUN_ID, key=Key("ann"), job="hold"))
    return await a_holder().wait_until_holding()


async def read_run(store: SqlStore) -> Run:
    record = await store.runs.run(RUN_ID)
    assert record is not None
    return record.run


async def sweep_and_read(store: SqlStore, database_url: str) -> Run:
    """Sweep like another process on this host, and return the run."""
    await sweep(store, store.runs, build_life_lock([database_url], store))
    return await read_run(store)


def locks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.alive"))


@pytest.mark.proves("I8")
@on_all
async def test_a_killed_process_is_found_dead_before_its_lease_expires(
    store: SqlStore, database_url: str, holder: Holder, tmp_path: Path
) -> None:
    (dead,) = await store.runs.instances()
    assert (await read_run(store)).instance_id == dead.id
    holder.kill()
    assert dead.lease_expires_at > SystemClock().now()
    run = await sweep_and_read(store, database_url)
    assert (run.instance_id, run.death_count) == (None, 1)
    assert await store.runs.instances() == []
    assert locks(tmp_path) == []


@pytest.mark.proves("I8")
@on_all
async def test_runs_of_a_killed_process_are_resumed_by_another(
    database_url: str, holder: Holder
) -> None:
    hw = Headway(database_url, lease_ttl_s=LEASE_S)

    @hw.job()
    async def hold(ctx: RunContext) -> int:
        return ctx.generation

    holder.kill()
    async with hw, asyncio.timeout(60):
        assert await hw.run(RUN_ID).result() == 2


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_paused_process_is_not_dead(
    store: SqlStore, database_url: str, holder: Holder, tmp_path: Path
) -> None:
    before = await read_run(store)
    holder.process.send_signal(signal.SIGSTOP)
    assert await sweep_and_read(store, database_url) == before
    assert len(locks(tmp_path)) == 1


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_running_process_is_not_dead(
    store: SqlStore, database_url: str, holder: Holder, tmp_path: Path
) -> None:
    before = await read_run(store)
    assert await sweep_and_read(store, database_url) == before
    assert len(locks(tmp_path)) == 1
    holder.stop()
    assert locks(tmp_path) == [], "a graceful stop removes the lock"


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_missing_lock_does_not_prove_that_its_process_is_dead(
    store: SqlStore, database_url: str, holder: Holder, tmp_path: Path
) -> None:
    (lock,) = locks(tmp_path)
    before = await read_run(store)
    holder.kill()
    lock.unlink()
    assert await sweep_and_read(store, database_url) == before


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_copied_lock_file_does_not_prove_that_its_process_is_dead(
    store: SqlStore, database_url: str, holder: Holder, tmp_path: Path
) -> None:
    (lock,) = locks(tmp_path)
    before = await read_run(store)
    shutil.copy(lock, tmp_path / "copy")
    (tmp_path / "copy").rename(lock)
    assert await sweep_and_read(store, database_url) == before


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_link_to_a_lock_file_does_not_prove_that_its_process_is_dead(
    store: SqlStore, database_url: str, holder: Holder, tmp_path: Path
) -> None:
    (lock,) = locks(tmp_path)
    before = await read_run(store)
    holder.kill()
    lock.rename(tmp_path / "moved")
    lock.symlink_to(tmp_path / "moved")
    assert await sweep_and_read(store, database_url) == before


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_lock_from_another_boot_does_not_prove_that_its_process_is_dead(
    store: SqlStore, database_url: str, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await read_run(store)
    holder.kill()
    monkeypatch.setattr(life_lock, "_boot_id", lambda: "another")
    assert await sweep_and_read(store, database_url) == before


@pytest.mark.proves("I17")
@on_sqlite
async def test_deaths_proven_by_locks_are_counted_until_the_run_is_poison(
    store: SqlStore, database_url: str, a_holder: Callable[[], Holder], holder: Holder
) -> None:
    holder.kill()
    for _ in range(DEATH_COUNT_MAX - 1):
        (await a_holder().wait_until_holding()).kill()
    run = await sweep_and_read(store, database_url)
    assert (run.status, run.death_count) == (RunStatus.FAILED, DEATH_COUNT_MAX)


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_graceful_stop_is_not_counted_as_a_death(
    store: SqlStore, database_url: str, holder: Holder
) -> None:
    holder.stop()
    run = await sweep_and_read(store, database_url)
    assert (run.instance_id, run.death_count) == (None, 0)
