"""The connection is cut at every packet of a short scenario; the answers are right (I3, I6)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.bootstrap import SystemClock
from headway.core.command.run.cancel import RequestCancel
from headway.core.command.run.settle import Complete, Settled
from headway.core.command.run.submit import Accepted
from headway.core.ids import InstanceId, RunId
from headway.core.run.status import RunStatus
from headway.services.upkeep.examination import run_doctor
from headway.testing import a_submit, claim_of
from tests.contract.backends import run_in_thread, upgrade
from tests.contract.scenes import (
    claim_run,
    read_events,
    read_status,
    read_transitions,
    register_instance,
)
from tests.servers.cutting_proxy import CuttingProxy, Direction
from tests.sql.nodes import MariaDBNode, Node, PostgresNode

PACKET_COUNT_MIN = 12
"""The least number of packets that the scenario must have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answers that a client received."""

    completed: RunId
    canceled: RunId


@pytest.fixture
def node(a_node: Callable[[], Node]) -> Node:
    node = a_node()
    run_in_thread(lambda: upgrade(node.url))
    return node


@asynccontextmanager
async def open_stores(node: Node) -> AsyncIterator[tuple[CuttingProxy, SqlStore, SqlStore]]:
    """Open a store behind a proxy, and one that reads the database directly."""
    assert isinstance(node, PostgresNode | MariaDBNode)
    server = node.server
    with CuttingProxy(server.host, server.port).run() as proxy:
        through = node.url.replace(f":{server.port}/", f":{proxy.port}/")
        store, beside = await open_store([through]), await open_store([node.url])
        try:
            yield proxy, store, beside
        finally:
            await store.close()
            await beside.close()


async def run_scenario(store: SqlStore, holder: InstanceId, name: str) -> Outcome:
    """Submit, claim and complete a run; submit another one and cancel it."""
    first = await store.apply(a_submit(f"{name}-one", job=name))
    assert isinstance(first, Accepted), first
    claim = await claim_run(store, holder, jobs=[name])
    assert claim.run_id == first.run_id
    settled: Any = await store.apply(Complete(claim_of(claim)))
    assert isinstance(settled, Settled), settled
    second = await store.apply(a_submit(f"{name}-two", job=name))
    assert isinstance(second, Accepted), second
    await store.apply(RequestCancel(run_id=second.run_id))
    return Outcome(first.run_id, second.run_id)


async def check_outcome(beside: SqlStore, outcome: Outcome) -> None:
    """Check that each confirmed write is stored once."""
    assert await read_status(beside, outcome.completed) is RunStatus.SUCCEEDED
    assert await read_status(beside, outcome.canceled) is RunStatus.CANCELED
    assert [to for _, to in await read_transitions(beside, outcome.completed)] == [
        "queued",
        "running",
        "succeeded",
    ]
    assert [to for _, to in await read_transitions(beside, outcome.canceled)] == [
        "queued",
        "canceled",
    ]


@pytest.mark.proves("I3", "I6", "I20", "I24")
@pytest.mark.parametrize("direction", list(Direction), ids=lambda direction: direction.name.lower())
async def test_connection_cut_at_any_packet_neither_loses_nor_repeats_a_change(
    node: Node, direction: Direction
) -> None:
    async with open_stores(node) as (proxy, store, beside):
        holder = await register_instance(store)
        outcomes: list[Outcome] = []
        number, was_cut = 0, True
        while was_cut:
            number += 1
            proxy.arm(direction, number)
            outcomes.append(await run_scenario(store, holder, f"scenario-{number}"))
            was_cut = proxy.disarm()
            await check_outcome(beside, outcomes[-1])
        assert number > PACKET_COUNT_MIN
        accepted = {event.run_id for event in await read_events(beside) if event.run_id is not None}
        assert accepted == {
            run_id for outcome in outcomes for run_id in (outcome.completed, outcome.canceled)
        }
        examination = await run_doctor(beside.doctor, SystemClock())
        assert examination.findings == ()
        assert examination.run_count == 2 * number
