"""Clear a lane: what waits is cancelled with a reason, what is active is left alone (R3.7)."""

import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.clear_lane import ClearRuns
from headway.core.command.admin.set_lane import ProposeLimit, SetLane
from headway.core.command.run.settle import Complete
from headway.core.errors import InvalidInput
from headway.core.ids import LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import a_claim, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    claimed,
    events,
    instance,
    lane_view,
    record,
    status,
    submitted,
    together,
)

MAIN = LaneName("main")


@pytest.mark.proves("R3.7")
async def test_what_waits_is_cancelled_with_the_reason_and_the_active_is_left_alone(
    store: SqlStore,
) -> None:
    active = await submitted(store, "ann")
    (_,) = await claimed(store, a_claim(await instance(store), count=1))
    behind = await submitted(store, "ann", on_conflict=OnConflict.ENQUEUE)
    ready = await submitted(store, "bob")
    assert await store.apply(ClearRuns((active, behind, ready), MAIN, "eve")) == 2
    assert await status(store, active) is RunStatus.RUNNING
    for run_id in (behind, ready):
        assert await status(store, run_id) is RunStatus.CANCELED
        cancel = (await record(store, run_id)).cancel
        assert cancel is not None
        assert json.loads(cancel) == {
            "files": "keep",
            "reason": "lane 'main' was cleared before this run started",
            "by": "eve",
        }


@pytest.mark.proves("R3.7")
async def test_one_that_has_started_since_it_was_seen_goes_on(store: SqlStore) -> None:
    run_id = await submitted(store, "ann")
    claim = a_claim(await instance(store))
    (_, cleared_count) = await together(store, claim, ClearRuns((run_id,), MAIN))
    assert cleared_count == 0
    assert await status(store, run_id) is RunStatus.RUNNING


@pytest.mark.proves("R3.7")
async def test_another_lanes_runs_and_unknown_ones_are_not_touched(store: SqlStore) -> None:
    elsewhere = await submitted(store, "ann", lane="side")
    before = await read_all(store)
    assert await store.apply(ClearRuns((elsewhere, RunId("nobody")), MAIN)) == 0
    assert await read_all(store) == before


@pytest.mark.proves("R3.7", "I9")
async def test_who_comes_behind_a_cleared_head_has_the_key_next(store: SqlStore) -> None:
    head = await submitted(store, "ann")
    second = await submitted(store, "ann", on_conflict=OnConflict.ENQUEUE)
    third = await submitted(store, "ann", on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(ClearRuns((second, head), MAIN)) == 2
    (one,) = await claimed(store, a_claim(await instance(store), count=9))
    assert one.run_id == third


@pytest.mark.proves("R3.7")
async def test_pages_of_what_waits_go_from_the_newest_to_the_oldest(store: SqlStore) -> None:
    started = await submitted(store, "first")
    (one,) = await claimed(store, a_claim(await instance(store), count=1))
    waiting = [await submitted(store, f"key-{number}") for number in range(3)]
    behind = await submitted(store, "first", on_conflict=OnConflict.ENQUEUE)
    await submitted(store, "elsewhere", lane="side")
    page = await store.runs.queued_runs(MAIN, limit=3)
    rest = await store.runs.queued_runs(MAIN, limit=3, before_seq=page[-1].seq)
    assert [run.id for run in (*page, *rest)] == [behind, *reversed(waiting)]
    assert one.run_id == started
    await store.apply(Complete(claim_of(one), document(None)))
    assert len(await store.runs.queued_runs(MAIN, limit=9)) == 4


@pytest.mark.proves("R3.7")
def test_who_clears_has_a_name_of_reasonable_length() -> None:
    with pytest.raises(InvalidInput, match="cancel: "):
        ClearRuns((RunId("r"),), MAIN, "x" * 5_000)


@pytest.mark.proves("R3.10")
async def test_what_a_job_proposes_counts_until_somebody_sets_the_limit(
    store: SqlStore,
) -> None:
    lane = LaneName("job:mail")
    assert (await store.apply(ProposeLimit(lane, 4))).max_concurrent == 4
    assert (await store.apply(ProposeLimit(lane, 2))).max_concurrent == 2, "the program has changed"
    told = len(await events(store))
    assert (await store.apply(ProposeLimit(lane, 2))).revision == 2
    assert len(await events(store)) == told, "nothing has changed, and nothing is told"
    await store.apply(SetLane(name=lane, is_paused=True))
    assert (await store.apply(ProposeLimit(lane, 3))).max_concurrent == 3, "only paused"
    await store.apply(SetLane(name=lane, max_concurrent=9))
    assert (await store.apply(ProposeLimit(lane, 4))).max_concurrent == 9
    assert (await lane_view(store, lane)).lane.max_concurrent == 9
