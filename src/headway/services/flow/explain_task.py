"""Why a task does not move: what its node waits for, and which service nobody offers."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from headway.core.flow.definition.definition import Kind
from headway.core.flow.definition.paths import Path
from headway.core.flow.engine.state import FlowState, Frame
from headway.core.flow.engine.step import next_wake_at
from headway.core.ids import RunId
from headway.core.run.explain import Explanation, Gate
from headway.services.flow.task_view import TaskView
from headway.services.flow.waiting_nodes import (
    APPROVAL,
    EVENT,
    FUNCTION,
    TIMER,
    WORKER,
    AwaitedWorker,
    awaited_path,
    awaited_worker,
    wait_reason,
)

HELD_OR_PARKED: Final = frozenset({Gate.RUNNING, Gate.WAITING, Gate.NOT_DUE, Gate.INBOX})
"""Only then is the task's own node what it waits for."""


def explain_task(
    found: Explanation, task: TaskView, state: FlowState, *, offered_services: Collection[str]
) -> Explanation:
    """`found`, which knows the run alone, in the words of its flow. `offered`: by live workers."""
    if found.gate not in HELD_OR_PARKED or state.is_over:
        return found
    node = "/".join(frame.node.key for frame in state.frames)
    frame = state.frames[-1]
    missing = [one for one in _pending_services(frame) if one not in offered_services]
    match wait_reason(state):
        case kind if kind == TIMER:
            sentence = f"Its node {node!r} is a timer, whose time has not come."
            told = replace(found, sentence=sentence, remedy="Nothing: it goes on by itself.")
        case kind if kind in (APPROVAL, EVENT):
            told = _explain_signal_wait(found, task.id, node, kind, awaited_path(state))
        case kind if kind == WORKER and (awaited := awaited_worker(state)) is not None:
            return _explain_worker_wait(found, node, awaited)
        case _ if missing:
            told = _explain_missing_worker(found, node, missing, frame)
        case kind if kind == FUNCTION:
            told = _explain_missing_function(found, node, frame)
        case _ if frame.node.flow:
            told = replace(
                found,
                sentence=f"Its node {node!r} waits for tasks of flow {frame.node.flow!r}.",
                remedy="Their end: `headway task list` shows them.",
            )
        case _:
            told = replace(found, sentence=f"Its node {node!r} is at work. {found.sentence}")
    rings_at = next_wake_at(state)
    return told if rings_at is None else replace(told, until=rings_at)


def _pending_services(frame: Frame) -> list[str]:
    """Which services the node has to call; of several branches, those that are not done."""
    node = frame.node
    if node.function or node.flow:
        return []
    several = frame.services or node.parallel_services
    if several:
        return list(dict.fromkeys(one for at, one in enumerate(several) if at not in frame.results))
    return [node.service] if node.kind in (Kind.EXECUTOR, Kind.FOREACH) else []


def _explain_signal_wait(
    found: Explanation, task_id: RunId, node: str, kind: str, path: Path | None
) -> Explanation:
    what = "an approval" if kind == APPROVAL else "an event"
    key = None if path is None else path.shared_key
    if path is None or key is None:
        return replace(
            found,
            sentence=f"Its node {node!r} waits for {what} that no signal can bring.",
            remedy="Its key must be in the shared state: mend the flow, and start another task.",
        )
    command = f"headway task signal {task_id} {key} <value>"
    if path.exact_key is None:
        sentence = f"Its node {node!r} waits for {what}, in {path.text!r}, which is within {key!r}."
        remedy = f"{command}, with all that {key!r} is to hold."
        return replace(found, sentence=sentence, remedy=remedy)
    return replace(
        found,
        sentence=f"Its node {node!r} waits for {what}, in {key!r} of the shared state.",
        remedy=f"headway task approve {task_id}" if kind == APPROVAL else command,
    )


def _explain_worker_wait(found: Explanation, node: str, awaited: AwaitedWorker) -> Explanation:
    names = ", ".join(repr(one) for one in awaited.services)
    sentence = f"Its node {node!r} waits for a worker that offers {names}."
    if awaited.is_offered:
        sentence += " The workers that offer it cannot be reached, and are called again."
    return replace(
        found,
        gate=Gate.NO_WORKER,
        sentence=sentence,
        remedy=(
            f"A worker that offers {names}: `headway worker <module:name>`."
            " The node fails if there is none in time."
        ),
        since=awaited.since,
        until=awaited.until,
    )


def _explain_missing_worker(
    found: Explanation, node: str, missing: list[str], frame: Frame
) -> Explanation:
    names = ", ".join(repr(one) for one in missing)
    plural = "s" if len(missing) > 1 else ""
    tries = max((branch.try_no for branch in frame.open_branches.values()), default=1)
    again = f" It is tried again ({tries - 1} of {frame.node.max_retries} times so far)."
    return replace(
        found,
        gate=Gate.NO_WORKER,
        sentence=(
            f"Its node {node!r} needs the service{plural} {names}, which no live worker offers."
            + (again if frame.node.max_retries else "")
        ),
        remedy=f"A worker that offers {names}: `headway worker <module:name>`.",
    )


def _explain_missing_function(found: Explanation, node: str, frame: Frame) -> Explanation:
    name = repr(frame.node.function)
    return replace(
        found,
        gate=Gate.NO_FUNCTION,
        sentence=(
            f"Its node {node!r} needs the function {name}, which the programs that took the task"
            " so far have not registered. It is tried again."
        ),
        remedy=f"A program that registers {name} with `flows.function` and opens this database.",
    )
