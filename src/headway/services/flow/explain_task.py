"""Explain why a task does not advance: which node waits, why, and what to do about it."""

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
"""The gates at which the current node of the task is the reason for the wait."""


def explain_task(
    explanation: Explanation, task: TaskView, state: FlowState, *, offered_services: Collection[str]
) -> Explanation:
    """Return the explanation of a task's run, refined with the state of its flow.

    `offered_services` are the services that live workers offer.
    """
    if explanation.gate not in HELD_OR_PARKED or state.is_over:
        return explanation
    node = "/".join(frame.node.key for frame in state.frames)
    frame = state.frames[-1]
    missing = [service for service in _pending_services(frame) if service not in offered_services]
    match wait_reason(state):
        case kind if kind == TIMER:
            sentence = f"Its node {node!r} is a timer that has not elapsed."
            remedy = "Wait: the task continues by itself."
            refined = replace(explanation, sentence=sentence, remedy=remedy)
        case kind if kind in (APPROVAL, EVENT):
            refined = _explain_signal_wait(explanation, task.id, node, kind, awaited_path(state))
        case kind if kind == WORKER and (awaited := awaited_worker(state)) is not None:
            return _explain_worker_wait(explanation, node, awaited)
        case _ if missing:
            refined = _explain_missing_worker(explanation, node, missing, frame)
        case kind if kind == FUNCTION:
            refined = _explain_missing_function(explanation, node, frame)
        case _ if frame.node.flow:
            refined = replace(
                explanation,
                sentence=f"Its node {node!r} waits for tasks of flow {frame.node.flow!r}.",
                remedy="Wait for them to end; `headway task list` shows them.",
            )
        case _:
            refined = replace(
                explanation, sentence=f"Its node {node!r} is executing. {explanation.sentence}"
            )
    wake_at = next_wake_at(state)
    return refined if wake_at is None else replace(refined, until=wake_at)


def _pending_services(frame: Frame) -> list[str]:
    """Return the services that the unfinished branches of the node call."""
    node = frame.node
    if node.function or node.flow:
        return []
    services = frame.services or node.parallel_services
    if services:
        return list(
            dict.fromkeys(
                service for index, service in enumerate(services) if index not in frame.results
            )
        )
    return [node.service] if node.kind in (Kind.EXECUTOR, Kind.FOREACH) else []


def _explain_signal_wait(
    explanation: Explanation, task_id: RunId, node: str, kind: str, path: Path | None
) -> Explanation:
    what = "an approval" if kind == APPROVAL else "an event"
    key = None if path is None else path.shared_key
    if path is None or key is None:
        return replace(
            explanation,
            sentence=f"Its node {node!r} waits for {what} that no signal can set.",
            remedy="Correct the flow so that the key is in the shared state, and start a new task.",
        )
    command = f"headway task signal {task_id} {key} <value>"
    if path.exact_key is None:
        sentence = f"Its node {node!r} waits for {what}, in {path.text!r}, which is within {key!r}."
        remedy = f"{command}, with the complete value of {key!r}."
        return replace(explanation, sentence=sentence, remedy=remedy)
    return replace(
        explanation,
        sentence=f"Its node {node!r} waits for {what}, in {key!r} of the shared state.",
        remedy=f"headway task approve {task_id}" if kind == APPROVAL else command,
    )


def _explain_worker_wait(
    explanation: Explanation, node: str, awaited: AwaitedWorker
) -> Explanation:
    names = ", ".join(repr(service) for service in awaited.services)
    sentence = f"Its node {node!r} waits for a worker that offers {names}."
    if awaited.is_offered:
        sentence += " The workers that offer it cannot be reached and are called again."
    return replace(
        explanation,
        gate=Gate.NO_WORKER,
        sentence=sentence,
        remedy=(
            f"Start a worker that offers {names}: `headway worker <module:name>`."
            " The node fails if there is none in time."
        ),
        since=awaited.since,
        until=awaited.until,
    )


def _explain_missing_worker(
    explanation: Explanation, node: str, missing: list[str], frame: Frame
) -> Explanation:
    names = ", ".join(repr(service) for service in missing)
    plural = "s" if len(missing) > 1 else ""
    tries = max((branch.try_no for branch in frame.open_branches.values()), default=1)
    retries = f" It is retried ({tries - 1} of {frame.node.max_retries} retries so far)."
    return replace(
        explanation,
        gate=Gate.NO_WORKER,
        sentence=(
            f"Its node {node!r} needs the service{plural} {names}, which no live worker offers."
            + (retries if frame.node.max_retries else "")
        ),
        remedy=f"Start a worker that offers {names}: `headway worker <module:name>`.",
    )


def _explain_missing_function(explanation: Explanation, node: str, frame: Frame) -> Explanation:
    name = repr(frame.node.function)
    return replace(
        explanation,
        gate=Gate.NO_FUNCTION,
        sentence=(
            f"Its node {node!r} needs the function {name}, which no program that has executed the"
            " task so far has registered. The call is retried."
        ),
        remedy=(
            f"Start a program that registers {name} with `flows.function` and opens this database."
        ),
    )
