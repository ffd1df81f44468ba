"""Small flows, and what the tests of their tasks have in common."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway import Headway
from headway.core.flow.engine.state import NodeRun
from headway.services.flow.task_view import TaskView


def a_flow(
    nodes: Mapping[str, Mapping[str, Any]], *edges: tuple[str, str] | tuple[str, str, str]
) -> dict[str, Any]:
    """The first node is the start; an edge is (from, to) or (from, action, to)."""
    drawn = [
        {"from": one[0], "to": one[-1], **({"action": one[1]} if len(one) == 3 else {})}
        for one in edges
    ]
    return {"start": next(iter(nodes)), "nodes": dict(nodes), "edges": drawn}


def local(function: str, given: str | None = None, **more: Any) -> dict[str, Any]:
    """A node that calls a function and keeps what it says under the function's name."""
    node: dict[str, Any] = {"kind": "local", "function": function, "post": {"output_key": function}}
    if given is not None:
        node["prep"] = {"input_key": given}
    return node | more


def told(rows: Sequence[NodeRun]) -> list[str]:
    """Node runs in short: node, branch and status."""
    return [
        f"{'/'.join(row.path)}{'' if row.branch is None else f'[{row.branch}]'} {row.status.value}"
        for row in rows
    ]


async def until(hw: Headway, task_id: str, is_so: Callable[[TaskView], bool]) -> TaskView:
    """The task, once that can be said of it."""
    while not is_so(view := await hw.flows.task(task_id)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return view


async def parked(hw: Headway, task_id: str) -> TaskView:
    """The task, once nobody holds it and nothing is left for anybody to take in."""
    return await until(hw, task_id, lambda view: view.run.is_parked and not view.run.unread_count)
