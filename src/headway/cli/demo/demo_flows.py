"""The flows of the demo: a small one that branches, and one with nearly every node kind."""

from typing import Any, Final


def _transform_node(op: str) -> dict[str, Any]:
    return {
        "kind": "executor",
        "service": "transform",
        "params": {"op": op},
        "prep": {"input_key": "$params.text"},
        "post": {"output_key": "result"},
    }


BRANCH: Final[dict[str, Any]] = {
    "start": "decide",
    "nodes": {
        "decide": {"kind": "executor", "service": "route", "post": {"action_key": "action"}},
        "B": _transform_node("upper"),
        "C": _transform_node("lower"),
    },
    "edges": [
        {"from": "decide", "action": "goB", "to": "B"},
        {"from": "decide", "action": "goC", "to": "C"},
    ],
}
ORDER: Final[dict[str, Any]] = {
    "start": "check",
    "nodes": {
        "check": {
            "kind": "parallel",
            "parallel_services": ["stock", "credit"],
            "parallel_mode": "concurrent",
            "prep": {"input_key": "$params.order"},
            "post": {"output_key": "checks"},
        },
        "price": {
            "kind": "foreach",
            "service": "price",
            "parallel_mode": "concurrent",
            "max_parallel": 2,
            "prep": {"input_key": "$params.order.items"},
            "post": {"output_key": "prices"},
        },
        "total": {
            "kind": "executor",
            "service": "sum",
            "prep": {"input_key": "prices"},
            "post": {"output_key": "total"},
        },
        "breathe": {"kind": "timer", "params": {"delay_ms": 1500}},
        "approve": {"kind": "approval", "params": {"approval_key": "$shared.approval"}},
        "pack": {
            "kind": "executor",
            "service": "pack",
            "params": {"wrap": "in brown paper"},
            "prep": {"input_key": "$params.order"},
            "post": {"output_key": "parcel"},
        },
    },
    "edges": [
        {"from": "check", "to": "price"},
        {"from": "price", "to": "total"},
        {"from": "total", "to": "breathe"},
        {"from": "breathe", "to": "approve"},
        {"from": "approve", "action": "approved", "to": "pack"},
        {"from": "approve", "action": "rejected", "to": ""},
    ],
}
ORDER_PARAMS: Final[dict[str, Any]] = {
    "order": {
        "customer": "ann",
        "items": [
            {"name": "tea", "count": 2, "each": 4},
            {"name": "cup", "count": 6, "each": 3},
            {"name": "pot", "count": 1, "each": 29},
        ],
    }
}
