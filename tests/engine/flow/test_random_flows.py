"""Random flows on real databases end as in the reference interpreter, despite lost commits.

They all run at once in one program, so that their steps share transactions. Workers and functions
are replaced by deterministic callees.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest

from headway import Headway
from headway.core.command.flow.advance import AdvanceFlow, ContinueTask
from headway.core.errors import DatabaseUnavailable
from headway.core.flow.engine import step_context
from headway.core.flow.engine.effects import CallFunction, CallService
from headway.core.flow.engine.inputs import (
    Answered,
    CalleeUnavailable,
    CallOutcome,
    Failed,
    WorkerRef,
)
from headway.services.flow import driver
from tests.core.flow import random_flows
from tests.core.flow.driver import Reply
from tests.core.flow.random_flows import PARAMS, Feature, make_callees
from tests.core.flow.reference import Reference
from tests.core.flow.reference_parts import Row
from tests.core.flow.test_agreement import as_row, without_times
from tests.engine.flow.scenes import wait_until

FLOW_COUNT: Final = 50
ROW_COUNT_MAX: Final = 16
"""Per task. It is small because a sweep finds an expired wait only a second later."""
FEATURE: Final = Feature(
    call_timeouts=False, subflow_timeouts=False, concurrent_fail_fast=False, late_signals=False
)
WHICH: Final = "which"
"""A parameter of every task that selects its callees."""


@pytest.fixture(autouse=True)
def few_rows_and_fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_context, "ROW_COUNT_MAX", ROW_COUNT_MAX)
    monkeypatch.setattr(driver, "RETRY_S", 0.01)


def a_definition(chance: Random) -> Any:
    """Build a random flow without child flows, because callees are not simulated for those."""
    definition: dict[str, Any] = json.loads(json.dumps(random_flows.a_definition(chance, FEATURE)))
    _replace_child_flows(definition)
    return definition


def _replace_child_flows(definition: dict[str, Any]) -> None:
    for node in definition["nodes"].values():
        if "subflow" in node:
            _replace_child_flows(node["subflow"])
        if "flow" in node:
            node["service"] = node.pop("flow")
            node.pop("timeout_ms", None)
            if node["kind"] == "flow_ref":
                node["kind"] = "executor"


def outcome(call_id: str, reply: Reply) -> CallOutcome:
    worker = None if reply.worker_id is None else WorkerRef(reply.worker_id, "http://w")
    if reply.is_untaken:
        return CalleeUnavailable(call_id, reply.error, worker)
    if reply.error:
        return Failed(call_id, reply.error, worker, reply.is_final, reply.is_last)
    return Answered(call_id, reply.result, worker)


def replace_callees(hw: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def call_worker(command: CallService, **_: Any) -> CallOutcome:
        callees = make_callees(command.params[WHICH])
        await asyncio.sleep(0)
        arguments = (command.service, command.input, command.try_no, command.attempt)
        reply = callees("service", *arguments)
        if reply.worker_id is None:
            return CalleeUnavailable(command.call_id, reply.error)
        return outcome(command.call_id, reply)

    async def call_function(command: CallFunction) -> CallOutcome:
        callees = make_callees(command.params[WHICH])
        await asyncio.sleep(0)
        arguments = (command.function, command.input, command.try_no)
        return outcome(command.call_id, callees("function", *arguments, 1))

    monkeypatch.setattr(hw.flows.services.workers, "call", call_worker)
    monkeypatch.setattr(hw.flows.services.functions, "call", call_function)


def lose_commits(hw: Headway, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Lose one of three steps before it is stored, and the answer to another one."""
    apply: Callable[[Any], Any] = hw.store.apply
    count = 0

    async def apply_or_not(command: Any) -> Any:
        nonlocal count
        if not (isinstance(command, AdvanceFlow) and isinstance(command.next_action, ContinueTask)):
            return await apply(command)
        count += 1
        if count % 3 == 0:
            raise DatabaseUnavailable({"here": "the connection broke before it"})
        answer = await apply(command)
        if count % 3 == 1:
            raise DatabaseUnavailable({"here": "the connection broke after it"})
        return answer

    monkeypatch.setattr(hw.store, "apply", apply_or_not)
    return lambda: count


@pytest.mark.proves("R5.5")
@pytest.mark.slow
@pytest.mark.parametrize("is_lossy", [False, True], ids=["whole", "lossy"])
async def test_random_flows_end_as_in_the_reference_interpreter(
    database_url: str, monkeypatch: pytest.MonkeyPatch, is_lossy: bool
) -> None:
    """Reading the state again from the database after a lost commit changes nothing (I3)."""
    definitions = [a_definition(Random(seed)) for seed in range(FLOW_COUNT)]
    async with Headway(database_url, stop_wait_s=0) as hw:
        for seed, definition in enumerate(definitions):
            await hw.flows.publish(f"f{seed}", definition)
        replace_callees(hw, monkeypatch)
        lost_count = lose_commits(hw, monkeypatch) if is_lossy else lambda: 1
        runs = [
            await hw.flows.start(f"f{seed}", params=PARAMS | {WHICH: seed})
            for seed in range(FLOW_COUNT)
        ]
        for seed, run in enumerate(runs):
            await assert_agreement(hw, run.id, seed, definitions[seed])
        assert lost_count() > 0


def to_text(row: Row) -> str:
    """Encode a row with sorted keys: a stored definition is in canonical order."""
    return json.dumps(without_times(row), sort_keys=True)


async def assert_agreement(hw: Headway, task_id: str, seed: int, definition: Any) -> None:
    params = PARAMS | {WHICH: seed}
    limit = ROW_COUNT_MAX
    reference = Reference(
        definition, params, make_callees(seed), signals=[], row_count_max=limit
    ).run()
    if reference.status is None:  # The task waits forever.
        view = await wait_until(hw, task_id, lambda view: view.step_count >= len(reference.rows))
    else:
        await hw.run(task_id).wait_for_end()
        view = await hw.flows.task(task_id)
    rows = await hw.flows.node_runs(task_id)
    actual_rows = Counter(to_text(as_row(row)) for row in rows)
    assert actual_rows == Counter(to_text(row) for row in reference.rows), seed
    status = None if view.run.is_active else view.status.value
    error = "" if view.error is None else view.error["message"]
    expected = reference.error
    if (
        reference.is_strict
        and reference.failed_path
        and reference.error not in ("", step_context.TOO_MANY_STEPS)
    ):
        expected = f"node {'/'.join(reference.failed_path)!r} failed: {reference.error}"
    assert (status, error) == (reference.status, expected), seed
    shared = {key: value for key, value in view.shared.items() if key != "_rt"}
    assert shared == reference.root, seed
