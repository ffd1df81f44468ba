"""Builders of small flows, and helpers for tests of their tasks."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway import Headway
from headway.core.flow.engine.state import NodeRun
from headway.services.flow.task_view import TaskView


def a_flow(
    nodes: Mapping[str, Mapping[str, Any]], *edges: tuple[str, str] | tuple[str, str, str]
) -> dict[str, Any]:
    """Build a flow. The first node is the start; an edge is (from, to) or (from, action, to)."""
    edge_documents = [
        {"from": edge[0], "to": edge[-1], **({"action": edge[1]} if len(edge) == 3 else {})}
        for edge in edges
    ]
    return {"start": next(iter(nodes)), "nodes": dict(nodes), "edges": edge_documents}


def local(function: str, input_key: str | None = None, **more: Any) -> dict[str, Any]:
    """Build a node that calls a function and stores its result under the function's name."""
    node: dict[str, Any] = {"kind": "local", "function": function, "post": {"output_key": function}}
    if input_key is not None:
        node["prep"] = {"input_key": input_key}
    return node | more


def summarize(rows: Sequence[NodeRun]) -> list[str]:
    """Return each node run as text: path, branch and status."""
    return [
        f"{'/'.join(row.path)}{'' if row.branch is None else f'[{row.branch}]'} {row.status.value}"
        for row in rows
    ]


async def wait_until(hw: Headway, task_id: str, is_true: Callable[[TaskView], bool]) -> TaskView:
    """Poll the task until the condition is true, and return it."""
    while not is_true(view := await hw.flows.task(task_id)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return view


async def wait_until_parked(hw: Headway, task_id: str) -> TaskView:
    """Wait until the task is parked and has no unread messages, and return it."""
    return await wait_until(
        hw, task_id, lambda view: view.run.is_parked and not view.run.unread_count
    )
