"""Small flows, and small responders for their calls."""

from collections.abc import Mapping
from typing import Any

from headway.core.flow.definition.definition import Flow
from headway.core.flow.engine.effects import CallService
from headway.core.flow.engine.state import NodeRun
from headway.core.flow.parse import parse_flow
from tests.core.flow.driver import Call, Driver, Reply, Responder
from tests.core.flow.reference_values import Json

Edges = Mapping[tuple[str, str], str]


def a_definition(nodes: Mapping[str, Json], edges: Edges | None = None) -> Json:
    """Return a definition. The first node is the start; edges are (from, action) → to."""
    return {
        "start": next(iter(nodes)),
        "nodes": dict(nodes),
        "edges": [
            {"from": source, "action": action, "to": target}
            for (source, action), target in (edges or {}).items()
        ],
    }


def a_flow(nodes: Mapping[str, Json], edges: Edges | None = None, **settings: Any) -> Flow:
    return parse_flow(a_definition(nodes, edges) | settings).flow


def a_driver(
    nodes: Mapping[str, Json],
    edges: Edges | None = None,
    answer: Responder = lambda _: None,
    *,
    params: Json | None = None,
    settings: Json | None = None,
    **more: Any,
) -> Driver:
    """Return a driver. `settings` are fields of the whole definition, such as `error_policy`."""
    return Driver(a_flow(nodes, edges, **(settings or {})), params, answer, **more)


def executor(**fields: Any) -> Json:
    """Return a node that calls one worker, unless `fields` change it."""
    return {"kind": "executor", "service": "s", "max_attempts": 1, **fields}


def reply_in_order(*replies: Reply) -> Responder:
    """Return a responder that gives these replies in order, and then none."""
    remaining = list(replies)
    return lambda _: remaining.pop(0) if remaining else None


def example_worker(call: Call) -> Reply:
    """Answer as the example worker of the first version does: `transform`, `sum`, `route`."""
    assert isinstance(call, CallService)
    call_input, params = call.input, call.params
    match call.service:
        case "transform" if isinstance(call_input, str) and params.get("op") in ("upper", "lower"):
            return Reply(5, call_input.upper() if params["op"] == "upper" else call_input.lower())
        case "transform" if isinstance(call_input, int | float):
            return Reply(5, call_input * params.get("mul", 1))
        case "sum" if isinstance(call_input, list):
            return Reply(5, sum(item for item in call_input if isinstance(item, int | float)))
        case "route":
            return Reply(5, {"action": params.get("action") or "goB"})
        case "transform" | "sum":
            return Reply(5, error="bad input")
        case _:
            return Reply(0, error="no worker", worker_id=None)


def summarize_rows(rows: list[NodeRun]) -> list[tuple[str, int, str, str, str]]:
    """Return the innermost node, the try, the status, the error and the action of each row."""
    return [(row.path[-1], row.attempt, row.status.value, row.error, row.action) for row in rows]
