"""Random flows on real databases end as the reference interpreter says, crashes or not.

All of them at once in one program, so that their steps share transactions. What is outside, workers
and functions, is a world that answers the same way every time.
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
from headway.core.flow.engine import step_context as walk
from headway.core.flow.engine.effects import CallFunction, CallService
from headway.core.flow.engine.inputs import (
    Answered,
    CalleeUnavailable,
    CallOutcome,
    Failed,
    WorkerRef,
)
from headway.services.flow import driver as drive
from tests.core.flow import drawing
from tests.core.flow.drawing import PARAMS, Feature, world_of
from tests.core.flow.driver import Reply
from tests.core.flow.reference import Reference
from tests.core.flow.reference_parts import Row
from tests.core.flow.test_agreement import as_row, without_times
from tests.engine.flow.scenes import until

FLOW_COUNT: Final = 50
ROW_COUNT_MAX: Final = 16
"""Of each task: a wait whose time is over is found by a sweep, a second later."""
FEATURE: Final = Feature(
    call_timeouts=False, subflow_timeouts=False, concurrent_fail_fast=False, late_signals=False
)
WHICH: Final = "which"
"""A parameter of every task, by which its world is found."""


@pytest.fixture(autouse=True)
def few_rows_and_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "ROW_COUNT_MAX", ROW_COUNT_MAX)
    monkeypatch.setattr(drive, "AGAIN_S", 0.01)


def a_definition(chance: Random) -> Any:
    """A random flow without child flows: what those say is a flow's own affair."""
    drawn: dict[str, Any] = json.loads(json.dumps(drawing.a_definition(chance, FEATURE)))
    _without_children(drawn)
    return drawn


def _without_children(definition: dict[str, Any]) -> None:
    for node in definition["nodes"].values():
        if "subflow" in node:
            _without_children(node["subflow"])
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


def give_worlds(hw: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def by_worker(command: CallService, **_: Any) -> CallOutcome:
        world = world_of(command.params[WHICH])
        await asyncio.sleep(0)
        given = (command.service, command.input, command.try_no, command.attempt)
        reply = world("service", *given)
        if reply.worker_id is None:
            return CalleeUnavailable(command.call_id, reply.error)
        return outcome(command.call_id, reply)

    async def by_function(command: CallFunction) -> CallOutcome:
        world = world_of(command.params[WHICH])
        await asyncio.sleep(0)
        given = (command.function, command.input, command.try_no)
        return outcome(command.call_id, world("function", *given, 1))

    monkeypatch.setattr(hw.flows.services.workers, "call", by_worker)
    monkeypatch.setattr(hw.flows.services.functions, "call", by_function)


def lose_commits(hw: Headway, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Of each three steps one is not stored, and of one that is the answer is lost."""
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
async def test_random_flows_end_as_the_reference_says(
    place: str, monkeypatch: pytest.MonkeyPatch, is_lossy: bool
) -> None:
    """I3: a state that is read again from the database after a lost commit makes no difference."""
    definitions = [a_definition(Random(seed)) for seed in range(FLOW_COUNT)]
    async with Headway(place, stop_wait_s=0) as hw:
        for seed, definition in enumerate(definitions):
            await hw.flows.publish(f"f{seed}", definition)
        give_worlds(hw, monkeypatch)
        lost_count = lose_commits(hw, monkeypatch) if is_lossy else lambda: 1
        runs = [
            await hw.flows.start(f"f{seed}", params=PARAMS | {WHICH: seed})
            for seed in range(FLOW_COUNT)
        ]
        for seed, run in enumerate(runs):
            await agrees(hw, run.id, seed, definitions[seed])
        assert lost_count() > 0


def in_text(row: Row) -> str:
    """A stored definition is in canonical order, and so is what comes of its maps."""
    return json.dumps(without_times(row), sort_keys=True)


async def agrees(hw: Headway, task_id: str, seed: int, definition: Any) -> None:
    params = PARAMS | {WHICH: seed}
    limit = ROW_COUNT_MAX
    said = Reference(definition, params, world_of(seed), signals=[], row_count_max=limit).run()
    if said.status is None:  # Nothing is left that could happen to it.
        view = await until(hw, task_id, lambda view: view.step_count >= len(said.rows))
    else:
        await hw.run(task_id).wait_for_end()
        view = await hw.flows.task(task_id)
    rows = await hw.flows.node_runs(task_id)
    made = Counter(in_text(as_row(row)) for row in rows)
    assert made == Counter(in_text(row) for row in said.rows), seed
    status = None if view.run.is_active else view.status.value
    error = "" if view.error is None else view.error["message"]
    expected = said.error
    if said.is_strict and said.failed_path and said.error not in ("", walk.TOO_MANY_STEPS):
        expected = f"node {'/'.join(said.failed_path)!r} failed: {said.error}"
    assert (status, error) == (said.status, expected), seed
    shared = {key: value for key, value in view.shared.items() if key != "_rt"}
    assert shared == said.root, seed
