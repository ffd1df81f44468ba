"""Clearing a lane cancels waiting runs with a reason and leaves active runs alone (R3.7)."""

import json

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.lane_limits import ClearRuns, ProposeLimit, SetLane
from headway.core.command.run.settle import Complete
from headway.core.errors import InvalidInput
from headway.core.ids import LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.status import RunStatus
from headway.testing import a_claim, claim_of, document
from tests.contract.backends import read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_runs,
    read_events,
    read_lane,
    read_record,
    read_status,
    register_instance,
    submit_run,
)

MAIN = LaneName("main")


@pytest.mark.proves("R3.7")
async def test_waiting_runs_are_canceled_with_the_reason_and_active_runs_stay(
    store: SqlStore,
) -> None:
    active = await submit_run(store, "ann")
    (_,) = await claim_runs(store, a_claim(await register_instance(store), count=1))
    behind = await submit_run(store, "ann", on_conflict=OnConflict.ENQUEUE)
    ready = await submit_run(store, "bob")
    assert await store.apply(ClearRuns((active, behind, ready), MAIN, "eve")) == 2
    assert await read_status(store, active) is RunStatus.RUNNING
    for run_id in (behind, ready):
        assert await read_status(store, run_id) is RunStatus.CANCELED
        cancel = (await read_record(store, run_id)).cancel
        assert cancel is not None
        assert json.loads(cancel) == {
            "files": "keep",
            "reason": "lane 'main' was cleared before this run started",
            "by": "eve",
        }


@pytest.mark.proves("R3.7")
async def test_run_that_has_started_since_it_was_listed_continues(store: SqlStore) -> None:
    run_id = await submit_run(store, "ann")
    claim = a_claim(await register_instance(store))
    (_, cleared_count) = await apply_in_one_batch(store, claim, ClearRuns((run_id,), MAIN))
    assert cleared_count == 0
    assert await read_status(store, run_id) is RunStatus.RUNNING


@pytest.mark.proves("R3.7")
async def test_runs_of_other_lanes_and_unknown_runs_are_not_changed(store: SqlStore) -> None:
    elsewhere = await submit_run(store, "ann", lane="side")
    before = await read_all(store)
    assert await store.apply(ClearRuns((elsewhere, RunId("nobody")), MAIN)) == 0
    assert await read_all(store) == before


@pytest.mark.proves("R3.7", "I9")
async def test_run_behind_a_cleared_head_becomes_the_head_of_the_key(store: SqlStore) -> None:
    head = await submit_run(store, "ann")
    second = await submit_run(store, "ann", on_conflict=OnConflict.ENQUEUE)
    third = await submit_run(store, "ann", on_conflict=OnConflict.ENQUEUE)
    assert await store.apply(ClearRuns((second, head), MAIN)) == 2
    (run,) = await claim_runs(store, a_claim(await register_instance(store), count=9))
    assert run.run_id == third


@pytest.mark.proves("R3.7")
async def test_pages_of_waiting_runs_go_from_the_newest_to_the_oldest(store: SqlStore) -> None:
    started = await submit_run(store, "first")
    (claimed_run,) = await claim_runs(store, a_claim(await register_instance(store), count=1))
    waiting = [await submit_run(store, f"key-{number}") for number in range(3)]
    behind = await submit_run(store, "first", on_conflict=OnConflict.ENQUEUE)
    await submit_run(store, "elsewhere", lane="side")
    page = await store.runs.queued_runs(MAIN, limit=3)
    rest = await store.runs.queued_runs(MAIN, limit=3, before_seq=page[-1].seq)
    assert [run.id for run in (*page, *rest)] == [behind, *reversed(waiting)]
    assert claimed_run.run_id == started
    await store.apply(Complete(claim_of(claimed_run), document(None)))
    assert len(await store.runs.queued_runs(MAIN, limit=9)) == 4


@pytest.mark.proves("R3.7")
def test_name_of_the_actor_is_limited_in_length() -> None:
    with pytest.raises(InvalidInput, match="cancel is "):
        ClearRuns((RunId("r"),), MAIN, "x" * 5_000)


@pytest.mark.proves("R3.10")
async def test_limit_proposed_by_a_job_applies_until_a_person_sets_a_limit(
    store: SqlStore,
) -> None:
    lane = LaneName("job:mail")
    assert (await store.apply(ProposeLimit(lane, 4))).max_concurrent == 4
    assert (await store.apply(ProposeLimit(lane, 2))).max_concurrent == 2, (
        "the job proposes another limit"
    )
    event_count = len(await read_events(store))
    assert (await store.apply(ProposeLimit(lane, 2))).revision == 2
    assert len(await read_events(store)) == event_count, "without a change there is no event"
    await store.apply(SetLane(name=lane, is_paused=True))
    assert (await store.apply(ProposeLimit(lane, 3))).max_concurrent == 3, "only paused"
    await store.apply(SetLane(name=lane, max_concurrent=9))
    assert (await store.apply(ProposeLimit(lane, 4))).max_concurrent == 9
    assert (await read_lane(store, lane)).lane.max_concurrent == 9
