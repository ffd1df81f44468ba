"""Small flows, and small answers."""

from collections.abc import Mapping
from typing import Any

from headway.core.flow.definition.definition import Flow
from headway.core.flow.engine.effects import CallService
from headway.core.flow.engine.state import NodeRun
from headway.core.flow.parse import parse_flow
from tests.core.flow.driver import Answer, Call, Driver, Reply
from tests.core.flow.reference_values import Json

Edges = Mapping[tuple[str, str], str]


def a_definition(nodes: Mapping[str, Json], edges: Edges | None = None) -> Json:
    """The first node is the start; edges are (from, action) → to."""
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
    answer: Answer = lambda _: None,
    *,
    params: Json | None = None,
    settings: Json | None = None,
    **more: Any,
) -> Driver:
    """`settings` are fields of the whole definition, such as `error_policy`."""
    return Driver(a_flow(nodes, edges, **(settings or {})), params, answer, **more)


def executor(**fields: Any) -> Json:
    """A node that asks one worker, unless the fields say otherwise."""
    return {"kind": "executor", "service": "s", "max_attempts": 1, **fields}


def replies(*given: Reply) -> Answer:
    """To the calls in the order in which they are made; then to none."""
    left = list(given)
    return lambda _: left.pop(0) if left else None


def worker(call: Call) -> Reply:
    """The services of the first version's worker, for `transform`, `sum` and `route`."""
    assert isinstance(call, CallService)
    given, params = call.input, call.params
    match call.service:
        case "transform" if isinstance(given, str) and params.get("op") in ("upper", "lower"):
            return Reply(5, given.upper() if params["op"] == "upper" else given.lower())
        case "transform" if isinstance(given, int | float):
            return Reply(5, given * params.get("mul", 1))
        case "sum" if isinstance(given, list):
            return Reply(5, sum(one for one in given if isinstance(one, int | float)))
        case "route":
            return Reply(5, {"action": params.get("action") or "goB"})
        case "transform" | "sum":
            return Reply(5, error="bad input")
        case _:
            return Reply(0, error="no worker", worker_id=None)


def told(rows: list[NodeRun]) -> list[tuple[str, int, str, str, str]]:
    """Of each: the innermost node, the try, how it went, the error, the action."""
    return [(row.path[-1], row.attempt, row.status.value, row.error, row.action) for row in rows]
