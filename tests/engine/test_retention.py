"""Retention bounds the stored runs and events, and is on by default (I19)."""

import asyncio

import pytest

from headway import Headway, Retention, RunContext
from headway.adapters.sql.sql_store import open_store
from headway.core.command.flow.register_worker import RecordHeartbeat, RegisterWorker
from headway.core.command.run.settle import Complete
from headway.core.errors import InvalidInput
from headway.core.ids import Instant
from headway.services.upkeep import pruner as pruner_module
from headway.services.upkeep.pruner import DAY_S, PrunedCounts, Pruner
from headway.testing import FakeClock, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import start_run, submit_run

pytestmark = pytest.mark.backend("sqlite")


def a_worker(worker_id: str) -> RegisterWorker:
    return RegisterWorker(id=worker_id, url="http://127.0.0.1:9", services=("sum",))


@pytest.mark.proves("I19")
async def test_only_old_ended_runs_are_pruned_in_batches(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner_module, "BATCH_SIZE", 3)
    clock = FakeClock()
    store = await open_store([url], now=clock)
    retention = Retention(idempotency_keys_s=DAY_S)
    pruner = Pruner(store, store.runs, store.events, store.workers, retention)
    try:
        active = await start_run(store, "active", idempotency_key="old")
        for number in range(8):
            claimed = await start_run(store, f"old-{number}")
            await store.apply(Complete(claim_of(claimed)))
        clock.advance(31 * DAY_S)
        young = await start_run(store, "young")
        await store.apply(Complete(claim_of(young)))
        await submit_run(store, "new", idempotency_key="young")
        last_seq = (await store.events.events(after_seq=0, limit=0)).last_seq
        await pruner.prune()
        remaining = {run.key for run in await store.runs.oldest_runs(after_seq=0, limit=100)}
        assert remaining == {"active", "young", "new"}
        assert (await store.runs.run(active.run_id)) is not None
        page = await store.events.events(after_seq=0, limit=100)
        assert {event.key for event in page.events} == {"young", "new"}
        assert page.last_seq == last_seq
        assert await store.runs.oldest_idempotency_keys(before=clock(), limit=9) == ["young"]
    finally:
        await store.close()


@pytest.mark.proves("I19")
async def test_the_counts_predicted_before_pruning_match_the_pruned_rows(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruner_module, "BATCH_SIZE", 2)
    monkeypatch.setattr(pruner_module, "EVENT_BATCH_SIZE", 2)
    clock = FakeClock()
    store = await open_store([url], now=clock)
    pruner = Pruner(store, store.runs, store.events, store.workers, Retention())
    try:
        for number in range(5):
            claimed = await start_run(store, f"old-{number}", idempotency_key=f"{number}")
            await store.apply(Complete(claim_of(claimed)))
        for number in range(3):
            await store.apply(a_worker(f"{number}"))
        old_seq = (await store.events.events(after_seq=0, limit=0)).last_seq
        clock.advance(31 * DAY_S)
        await submit_run(store, "old-3")  # A busy key keeps its last run, which can be continued.
        await store.apply(RecordHeartbeat(id="1", load=0))
        before = await read_all(store)
        counts = await pruner.count_prunable()
        assert counts == PrunedCounts(4, old_seq, 5, 2)
        assert await read_all(store) == before
        assert await pruner.prune_all() == counts
        assert await pruner.count_prunable() == PrunedCounts(0, 0, 0, 0)
        remaining_workers = await store.workers.workers(heartbeat_since=Instant(0))
        assert [worker.id for worker in remaining_workers] == ["1"]
    finally:
        await store.close()


@pytest.mark.proves("I19")
async def test_runs_that_cannot_be_pruned_do_not_block_younger_runs(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round examines two runs, and the first three are never pruned."""
    monkeypatch.setattr(pruner_module, "BATCH_SIZE", 2)
    monkeypatch.setattr(pruner_module, "BLOCKED_BATCH_COUNT_MAX", 1)
    clock = FakeClock()
    store = await open_store([url], now=clock)
    pruner = Pruner(store, store.runs, store.events, store.workers, Retention())
    try:
        active_ids = [await submit_run(store, f"active-{number}") for number in range(3)]
        for _ in range(2):  # After the last run, it starts again at the first.
            claimed = await start_run(store, "old", lane="other")
            await store.apply(Complete(claim_of(claimed)))
            clock.advance(31 * DAY_S)
            removed = [(await pruner.prune()).run_count for _ in range(3)]
            assert sum(removed) == 1
        remaining = await store.runs.oldest_runs(after_seq=0, limit=100)
        assert [run.id for run in remaining] == active_ids
    finally:
        await store.close()


@pytest.mark.proves("I19")
async def test_an_engine_prunes_by_itself(url: str) -> None:
    hw = Headway(url)

    @hw.job()
    async def work(ctx: RunContext) -> None:
        """End at once."""

    async with hw:
        run = await hw.start("work")
        await run.result(10)
    hw = Headway(url, retention=Retention(runs_s=0.0))
    async with hw:
        while await hw.store.runs.run(run.id) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.proves("I15")
def test_an_invalid_retention_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"retention\.runs_s"):
        Retention(runs_s=-1.0)
