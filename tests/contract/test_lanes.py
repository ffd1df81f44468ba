"""Lanes: the number of keys that run at once, and the order of starts (R1.2, R1.3, R1.4)."""

import asyncio
import json
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.lane_limits import LIMIT_MAX, SetLane
from headway.core.command.protocol import RevisionMismatch
from headway.core.command.run.claim import CLAIM_COUNT_MAX
from headway.core.command.run.settle import Complete, Fail
from headway.core.errors import InvalidInput
from headway.core.ids import InstanceId, LaneName
from headway.core.lane_row import LaneRow
from headway.core.run.events import EventType
from headway.testing import a_claim, a_submit, an_error, claim_of
from tests.contract.backends import read_all
from tests.contract.scenes import (
    apply_in_one_batch,
    claim_runs,
    raise_limit,
    read_events,
    read_lane,
    register_instance,
    submit_run,
)


@pytest.mark.proves("R1.2")
async def test_main_has_three_slots_by_default(store: SqlStore) -> None:
    views = {view.lane.name: view.lane for view in await store.runs.lanes()}
    assert views == {
        "main": LaneRow(LaneName("main"), 3),
        "cron": LaneRow(LaneName("cron"), 1),
        "subagent": LaneRow(LaneName("subagent"), 1),
    }


@pytest.mark.proves("R1.2", "I5")
async def test_no_more_runs_start_than_the_limit_allows(store: SqlStore) -> None:
    for number in range(5):
        await submit_run(store, f"key-{number}")
    holder = await register_instance(store)
    assert len(await claim_runs(store, a_claim(holder, count=10))) == 3
    assert await claim_runs(store, a_claim(holder, count=10)) == ()
    view = await read_lane(store)
    assert (view.held_count, view.queued_count) == (3, 2)


@pytest.mark.proves("R1.2", "I5")
async def test_concurrent_claims_do_not_exceed_the_lane_limit(
    store: SqlStore, another_store: SqlStore
) -> None:
    for number in range(20):
        await submit_run(store, f"key-{number}")
    claims = [
        claim_runs(each_store, a_claim(await register_instance(store), count=2))
        for _ in range(5)
        for each_store in (store, another_store)
    ]
    answers = await asyncio.gather(*claims)
    assert sum(len(answer) for answer in answers) == 3
    assert (await read_lane(store)).held_count == 3


@pytest.mark.proves("R1.2")
async def test_lanes_do_not_share_their_slots(store: SqlStore) -> None:
    holder = await register_instance(store)
    for lane in ("main", "cron", "new"):
        for number in range(4):
            await submit_run(store, f"{lane}-{number}", lane=lane)
    counts = {
        lane: len(await claim_runs(store, a_claim(holder, lane=lane, count=10)))
        for lane in ("main", "cron", "new")
    }
    assert counts == {"main": 3, "cron": 1, "new": 1}


@pytest.mark.proves("R1.2")
async def test_unknown_lane_has_nothing_to_claim(store: SqlStore) -> None:
    assert await claim_runs(store, a_claim(await register_instance(store), lane="nowhere")) == ()


@pytest.mark.proves("R1.3")
async def test_runs_start_in_the_order_of_their_submission(store: SqlStore) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(6)]
    holder = await register_instance(store)
    started = [run.run_id for run in await claim_runs(store, a_claim(holder, count=10))]
    assert started == run_ids[:3]
    view = await read_lane(store)
    assert view.queued_count == 3


@pytest.mark.proves("R1.4")
async def test_each_run_that_ends_lets_the_next_run_start(store: SqlStore) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(6)]
    holder = await register_instance(store)
    first = await claim_runs(store, a_claim(holder, count=10))
    await store.apply(Complete(claim_of(first[1])))
    assert [run.run_id for run in await claim_runs(store, a_claim(holder, count=10))] == [
        run_ids[3]
    ]
    await store.apply(Fail(claim_of(first[0]), an_error()))
    await store.apply(Complete(claim_of(first[2])))
    assert [run.run_id for run in await claim_runs(store, a_claim(holder, count=10))] == run_ids[4:]


@pytest.mark.proves("R1.4")
async def test_claim_gets_the_slot_freed_earlier_in_its_batch(
    store: SqlStore,
) -> None:
    """In one batch the claim sees the slot that the end before it has freed."""
    run_ids = [await submit_run(store, f"key-{number}") for number in range(4)]
    holder = await register_instance(store)
    first = await claim_runs(store, a_claim(holder, count=3))
    _, second = await apply_in_one_batch(
        store, Complete(claim_of(first[0])), a_claim(holder, count=3)
    )
    assert [run.run_id for run in second] == [run_ids[3]]


@pytest.mark.proves("R1.4")
async def test_raised_limit_lets_more_runs_start(store: SqlStore) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(6)]
    holder = await register_instance(store)
    await claim_runs(store, a_claim(holder, count=10))
    raised = SetLane(name=LaneName("main"), max_concurrent=5)
    _, more = await apply_in_one_batch(store, raised, a_claim(holder, count=10))
    assert [run.run_id for run in more] == run_ids[3:5]


@pytest.mark.proves("R1.4", "I5")
async def test_lowered_limit_interrupts_no_run(store: SqlStore) -> None:
    for number in range(6):
        await submit_run(store, f"key-{number}")
    holder = await register_instance(store)
    runs = await claim_runs(store, a_claim(holder, count=10))
    await raise_limit(store, 1)
    assert (await read_lane(store)).held_count == 3
    for run in runs[:2]:
        assert await claim_runs(store, a_claim(holder)) == ()
        await store.apply(Complete(claim_of(run)))
    assert await claim_runs(store, a_claim(holder)) == ()
    await store.apply(Complete(claim_of(runs[2])))
    assert len(await claim_runs(store, a_claim(holder, count=10))) == 1


@pytest.mark.proves("R1.4")
@pytest.mark.parametrize("pause", [{"max_concurrent": 0}, {"is_paused": True}])
async def test_paused_lane_starts_nothing_and_keeps_its_queue(
    store: SqlStore, pause: dict[str, Any]
) -> None:
    run_id = await submit_run(store)
    holder = await register_instance(store)
    await store.apply(SetLane(name=LaneName("main"), **pause))
    assert await claim_runs(store, a_claim(holder)) == ()
    await store.apply(SetLane(name=LaneName("main"), max_concurrent=3, is_paused=False))
    assert [run.run_id for run in await claim_runs(store, a_claim(holder))] == [run_id]


@pytest.mark.proves("R1.2")
async def test_change_of_a_lane_writes_an_event_and_a_new_revision(store: SqlStore) -> None:
    changed = await store.apply(
        SetLane(name=LaneName("main"), max_concurrent=7, max_queued=9, is_paused=True)
    )
    assert changed == LaneRow(LaneName("main"), 7, 9, 1, 1, 1)
    assert (await read_lane(store)).lane == changed
    (event,) = await read_events(store)
    assert (event.type, event.lane, event.run_id) == (EventType.LANE_CHANGED, "main", None)
    assert json.loads(event.payload) == {
        "max_concurrent": 7,
        "max_queued": 9,
        "is_paused": True,
        "by": "",
    }


@pytest.mark.proves("R1.2")
async def test_lane_changed_by_another_writer_is_not_overwritten(store: SqlStore) -> None:
    await raise_limit(store, 7)
    before = await read_all(store)
    stale = SetLane(name=LaneName("main"), max_concurrent=1, expected_revision=0)
    assert await store.apply(stale) == RevisionMismatch(1)
    assert await read_all(store) == before
    current = SetLane(name=LaneName("main"), max_concurrent=1, expected_revision=1)
    assert isinstance(await store.apply(current), LaneRow)


@pytest.mark.proves("R1.2")
async def test_lane_may_be_set_before_it_is_used(store: SqlStore) -> None:
    await raise_limit(store, 2, lane="new")
    for number in range(3):
        await submit_run(store, f"key-{number}", lane="new")
    assert (
        len(await claim_runs(store, a_claim(await register_instance(store), lane="new", count=9)))
        == 2
    )


@pytest.mark.proves("R1.2")
async def test_lane_that_is_used_and_configured_in_one_batch_keeps_all_changes(
    store: SqlStore,
) -> None:
    lane = LaneName("new")
    await apply_in_one_batch(
        store,
        a_submit("a", lane=lane),
        SetLane(name=lane, max_concurrent=2),
        SetLane(name=lane, max_queued=5),
        a_submit("b", lane=lane),
    )
    assert (await read_lane(store, lane)).lane == LaneRow(lane, 2, 5, 0, 2, 1)


@pytest.mark.proves("I3")
async def test_no_change_of_a_lane_is_lost(store: SqlStore, another_store: SqlStore) -> None:
    for number in range(10):
        lane = LaneName(f"lane-{number}")
        await asyncio.gather(
            store.apply(SetLane(name=lane, max_concurrent=7)),
            another_store.apply(SetLane(name=lane, max_queued=9)),
        )
        assert (await read_lane(store, lane)).lane == LaneRow(lane, 7, 9, 0, 2, 1)


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("jobs", {"jobs": ()}),
        ("count", {"count": 0}),
        ("count", {"count": CLAIM_COUNT_MAX + 1}),
    ],
)
def test_claim_with_an_invalid_count_is_refused(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        a_claim(InstanceId("me"), **wrong)
    assert refused.value.field == field


@pytest.mark.proves("I15")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_concurrent", -1),
        ("max_concurrent", LIMIT_MAX + 1),
        ("max_queued", -2),
        ("max_queued", LIMIT_MAX + 1),
    ],
)
def test_limit_out_of_range_is_refused(field: str, value: int) -> None:
    wrong: dict[str, Any] = {field: value}
    with pytest.raises(InvalidInput) as refused:
        SetLane(name=LaneName("main"), **wrong)
    assert refused.value.field == field
