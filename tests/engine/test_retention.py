"""I19: storage is bounded by configuration, and retention is on by default."""

import asyncio

import pytest

from headway import Headway, Retention, RunContext
from headway.adapters.sql.sql_store import open_store
from headway.core.command.flow.register_worker import RecordHeartbeat, RegisterWorker
from headway.core.command.run.settle import Complete
from headway.core.errors import InvalidInput
from headway.core.ids import Instant
from headway.services.upkeep import pruner as retention
from headway.services.upkeep.pruner import DAY_S, PrunedCounts, Pruner
from headway.testing import FakeClock, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import running, submitted

pytestmark = pytest.mark.backend("sqlite")


def a_worker(worker_id: str) -> RegisterWorker:
    return RegisterWorker(id=worker_id, url="http://127.0.0.1:9", services=("sum",))


@pytest.mark.proves("I19")
async def test_what_is_over_and_old_goes_a_few_at_a_time_and_nothing_else(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 3)
    clock = FakeClock()
    store = await open_store([url], now=clock)
    kept = Retention(idempotency_keys_s=DAY_S)
    keeper = Pruner(store, store.runs, store.events, store.workers, kept)
    try:
        active = await running(store, "active", idempotency_key="old")
        for number in range(8):
            one = await running(store, f"old-{number}")
            await store.apply(Complete(claim_of(one)))
        clock.advance(31 * DAY_S)
        young = await running(store, "young")
        await store.apply(Complete(claim_of(young)))
        await submitted(store, "new", idempotency_key="young")
        last_seq = (await store.events.events(after_seq=0, limit=0)).last_seq
        await keeper.prune()
        left = {run.key for run in await store.runs.oldest_runs(after_seq=0, limit=100)}
        assert left == {"active", "young", "new"}
        assert (await store.runs.run(active.run_id)) is not None
        page = await store.events.events(after_seq=0, limit=100)
        assert {event.key for event in page.events} == {"young", "new"}
        assert page.last_seq == last_seq
        assert await store.runs.oldest_idempotency_keys(before=clock(), limit=9) == ["young"]
    finally:
        await store.close()


@pytest.mark.proves("I19")
async def test_what_would_go_is_told_before_it_goes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    monkeypatch.setattr(retention, "EVENT_BATCH_SIZE", 2)
    clock = FakeClock()
    store = await open_store([url], now=clock)
    keeper = Pruner(store, store.runs, store.events, store.workers, Retention())
    try:
        for number in range(5):
            one = await running(store, f"old-{number}", idempotency_key=f"{number}")
            await store.apply(Complete(claim_of(one)))
        for number in range(3):
            await store.apply(a_worker(f"{number}"))
        old_seq = (await store.events.events(after_seq=0, limit=0)).last_seq
        clock.advance(31 * DAY_S)
        await submitted(store, "old-3")  # A busy key keeps what can be continued.
        await store.apply(RecordHeartbeat(id="1", load=0))
        before = await read_all(store)
        told = await keeper.count_prunable()
        assert told == PrunedCounts(4, old_seq, 5, 2)
        assert await read_all(store) == before
        assert await keeper.prune_all() == told
        assert await keeper.count_prunable() == PrunedCounts(0, 0, 0, 0)
        heard = await store.workers.workers(heartbeat_since=Instant(0))
        assert [one.id for one in heard] == ["1"]
    finally:
        await store.close()


@pytest.mark.proves("I19")
async def test_what_may_not_go_keeps_nothing_younger_from_going(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round looks at two runs, and the first three stay for ever."""
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    monkeypatch.setattr(retention, "BLOCKED_BATCH_COUNT_MAX", 1)
    clock = FakeClock()
    store = await open_store([url], now=clock)
    keeper = Pruner(store, store.runs, store.events, store.workers, Retention())
    try:
        stay = [await submitted(store, f"active-{number}") for number in range(3)]
        for _ in range(2):  # When it came to the end, it begins again.
            one = await running(store, "old", lane="other")
            await store.apply(Complete(claim_of(one)))
            clock.advance(31 * DAY_S)
            removed = [(await keeper.prune()).run_count for _ in range(3)]
            assert sum(removed) == 1
        left = await store.runs.oldest_runs(after_seq=0, limit=100)
        assert [run.id for run in left] == stay
    finally:
        await store.close()


@pytest.mark.proves("I19")
async def test_an_engine_prunes_by_itself(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        """Over at once."""

    async with hw:
        run = await hw.start("work")
        await run.result(10)
    hw = Headway(url, retention=Retention(runs_s=0.0))
    async with hw:
        while await hw.store.runs.run(run.id) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.proves("I15")
def test_a_retention_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"retention\.runs_s"):
        Retention(runs_s=-1.0)
