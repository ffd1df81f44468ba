"""A process that died on this host is found out by its lock, long before its lease is over.

Every lease here lasts for hours: what is taken over was taken over by proof.
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
from headway.services.submit.admit import admit
from tests.engine.holder import LEASE_S, Holder
from tests.engine.scenes import looked_at

RUN_ID = RunId("held")
on_sqlite = pytest.mark.parametrize("backend", ["sqlite"])
on_all = pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else's locks: those of servers' clients are in this folder."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
async def store(place: str) -> AsyncIterator[SqlStore]:
    async with looked_at(place) as store:
        yield store


@pytest.fixture
def a_holder(place: str) -> Iterator[Callable[[], Holder]]:
    made: list[Holder] = []

    def make() -> Holder:
        made.append(Holder(place))
        return made[-1]

    yield make
    for holder in made:
        holder.kill()


@pytest.fixture
async def holder(store: SqlStore, a_holder: Callable[[], Holder]) -> Holder:
    """A process that has begun a run."""
    await admit(store, Submit(run_id=RUN_ID, key=Key("ann"), job="hold"))
    return await a_holder().holds()


async def held(store: SqlStore) -> Run:
    record = await store.runs.run(RUN_ID)
    assert record is not None
    return record.run


async def swept(store: SqlStore, place: str) -> Run:
    """The run, after somebody else on this host has looked for what nobody moves."""
    await sweep(store, store.runs, build_life_lock([place], store))
    return await held(store)


def locks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.alive"))


@pytest.mark.proves("I8")
@on_all
async def test_a_killed_process_is_found_dead_although_its_lease_goes_on(
    store: SqlStore, place: str, holder: Holder, tmp_path: Path
) -> None:
    (dead,) = await store.runs.instances()
    assert (await held(store)).instance_id == dead.id
    holder.kill()
    assert dead.lease_expires_at > SystemClock().now()
    run = await swept(store, place)
    assert (run.instance_id, run.death_count) == (None, 1)
    assert await store.runs.instances() == []
    assert locks(tmp_path) == []


@pytest.mark.proves("I8")
@on_all
async def test_its_runs_go_on_elsewhere(place: str, holder: Holder) -> None:
    hw = Headway(place, lease_ttl_s=LEASE_S)

    @hw.job()
    async def hold(ctx: RunContext) -> int:
        return ctx.generation

    holder.kill()
    async with hw, asyncio.timeout(60):
        assert await hw.run(RUN_ID).result() == 2


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_paused_process_is_not_dead(
    store: SqlStore, place: str, holder: Holder, tmp_path: Path
) -> None:
    before = await held(store)
    holder.process.send_signal(signal.SIGSTOP)
    assert await swept(store, place) == before
    assert len(locks(tmp_path)) == 1


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_living_process_is_not_dead(
    store: SqlStore, place: str, holder: Holder, tmp_path: Path
) -> None:
    before = await held(store)
    assert await swept(store, place) == before
    assert len(locks(tmp_path)) == 1
    holder.stop()
    assert locks(tmp_path) == [], "who leaves in good order leaves nothing behind"


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_missing_lock_proves_nothing(
    store: SqlStore, place: str, holder: Holder, tmp_path: Path
) -> None:
    (lock,) = locks(tmp_path)
    before = await held(store)
    holder.kill()
    lock.unlink()
    assert await swept(store, place) == before


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_copy_of_a_lock_proves_nothing(
    store: SqlStore, place: str, holder: Holder, tmp_path: Path
) -> None:
    (lock,) = locks(tmp_path)
    before = await held(store)
    shutil.copy(lock, tmp_path / "copy")
    (tmp_path / "copy").rename(lock)
    assert await swept(store, place) == before


@pytest.mark.proves("I8")
@on_sqlite
async def test_a_link_to_a_lock_proves_nothing(
    store: SqlStore, place: str, holder: Holder, tmp_path: Path
) -> None:
    (lock,) = locks(tmp_path)
    before = await held(store)
    holder.kill()
    lock.rename(tmp_path / "moved")
    lock.symlink_to(tmp_path / "moved")
    assert await swept(store, place) == before


@pytest.mark.proves("I8")
@on_sqlite
async def test_under_another_kernel_nothing_is_proven(
    store: SqlStore, place: str, holder: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await held(store)
    holder.kill()
    monkeypatch.setattr(life_lock, "_boot_id", lambda: "another")
    assert await swept(store, place) == before


@pytest.mark.proves("I17")
@on_sqlite
async def test_proven_deaths_count_and_poison_ends_the_run(
    store: SqlStore, place: str, a_holder: Callable[[], Holder], holder: Holder
) -> None:
    holder.kill()
    for _ in range(DEATH_COUNT_MAX - 1):
        (await a_holder().holds()).kill()
    run = await swept(store, place)
    assert (run.status, run.death_count) == (RunStatus.FAILED, DEATH_COUNT_MAX)


@pytest.mark.proves("I8")
@on_sqlite
async def test_one_who_left_in_good_order_does_not_count_as_dead(
    store: SqlStore, place: str, holder: Holder
) -> None:
    holder.stop()
    run = await swept(store, place)
    assert (run.instance_id, run.death_count) == (None, 0)
