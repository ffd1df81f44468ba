"""Limits of lanes from the configuration, in addition to those of people and jobs."""

import asyncio
import json
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.core.command.admin.lane_limits import (
    LIMIT_MAX,
    ConfiguredLane,
    ConfigureLanes,
    ProposeLimit,
)
from headway.core.command.admin.lane_limits import SetLane as Set
from headway.core.errors import InvalidInput
from headway.core.ids import LaneName
from headway.testing import a_claim
from tests.contract.scenes import claim_runs, read_events, read_lane, register_instance, submit_run

MAIN = LaneName("main")


def configuration(**limits: Any) -> ConfigureLanes:
    return ConfigureLanes(tuple((LaneName(name), limit) for name, limit in limits.items()))


async def read_limit(store: SqlStore, name: str = "main") -> int:
    return (await read_lane(store, LaneName(name))).lane.max_concurrent


@pytest.mark.proves("R3.10")
async def test_configured_limits_are_applied_once_and_their_events_name_the_configuration(
    store: SqlStore,
) -> None:
    command = configuration(main=5, new=2)
    expected = ConfiguredLane(MAIN, 3, 5), ConfiguredLane(LaneName("new"), 1, 2)
    assert await store.apply(command) == expected
    assert (await read_limit(store), await read_limit(store, "new")) == (5, 2)
    payloads = [json.loads(event.payload) for event in await read_events(store)]
    assert [(payload["max_concurrent"], payload["by"]) for payload in payloads] == [
        (5, "configuration"),
        (2, "configuration"),
    ]
    assert await store.apply(command) == ()
    assert len(await read_events(store)) == 2


@pytest.mark.proves("R3.10")
async def test_limit_that_a_person_sets_stays_until_the_configured_one_changes(
    store: SqlStore,
) -> None:
    await store.apply(configuration(main=5))
    await store.apply(Set(name=MAIN, max_concurrent=9))
    assert await store.apply(configuration(main=5)) == ()
    assert await read_limit(store) == 9
    assert await store.apply(configuration(main=4)) == (ConfiguredLane(MAIN, 9, 4),)
    assert await read_limit(store) == 4


@pytest.mark.proves("R3.10")
async def test_lane_that_the_configuration_no_longer_names_keeps_its_limit(store: SqlStore) -> None:
    await store.apply(configuration(main=5, cron=2))
    assert await store.apply(configuration(cron=2)) == ()
    assert await read_limit(store) == 5


@pytest.mark.proves("R3.10")
async def test_configured_limit_wins_over_the_one_that_a_job_proposes(store: SqlStore) -> None:
    lane = LaneName("job:mail")
    await store.apply(ProposeLimit(lane, 4))
    await store.apply(ConfigureLanes(((lane, 2),)))
    assert (await store.apply(ProposeLimit(lane, 7))).max_concurrent == 2


@pytest.mark.proves("R3.10")
async def test_instances_with_the_same_configuration_change_a_lane_once(
    store: SqlStore, another_store: SqlStore
) -> None:
    for number in range(5):
        lane = LaneName(f"lane-{number}")
        command = ConfigureLanes(((MAIN, 10 + number), (lane, 7)))
        answers = await asyncio.gather(store.apply(command), another_store.apply(command))
        assert sorted(map(len, answers)) == [0, 2]
        view = await read_lane(store, lane)
        assert (view.lane.max_concurrent, view.lane.revision) == (7, 1)


@pytest.mark.proves("R3.10")
async def test_raised_limit_lets_waiting_runs_start_at_once(store: SqlStore) -> None:
    run_ids = [await submit_run(store, f"key-{number}") for number in range(5)]
    holder = await register_instance(store)
    await claim_runs(store, a_claim(holder, count=9))
    await store.apply(configuration(main=4))
    assert [run.run_id for run in await claim_runs(store, a_claim(holder, count=9))] == run_ids[3:4]


@pytest.mark.proves("R3.4", "R3.12")
@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"main": -1}, f"lanes.main must be 0 to {LIMIT_MAX:,}"),
        ({"main": 1.5}, "lanes.main must be a whole number"),
        ({"main": True}, "lanes.main must be a whole number"),
        ({"main": None}, "lanes.main must be a whole number"),
        ({"main": 5, " main ": 5}, "lanes: the lane 'main' is named twice; keep one of them"),
        ({" ": 5}, "lanes must not be empty"),
    ],
)
def test_configuration_that_is_wrong_in_one_lane_is_refused_as_a_whole(
    limits: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        configuration(cron=2, **limits)
    assert str(refused.value).startswith(problem)


@pytest.mark.proves("R3.4")
def test_configured_names_are_trimmed() -> None:
    assert configuration(**{" main ": 5}).limits == ((MAIN, 5),)
