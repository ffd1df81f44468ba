"""A flow with a node of every kind, for the page to show."""

from typing import Any, Final

ORDERS: Final[dict[str, Any]] = {
    "worker_wait_ms": 0,
    "start": "size",
    "nodes": {
        "size": {
            "kind": "choice",
            "prep": {"input_key": "$params.count"},
            "choice_cases": [{"action": "large", "expr": {"gt": ["$input", 100]}}],
            "default_action": "small",
        },
        "ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
        "price": {
            "kind": "local",
            "function": "price",
            "prep": {"input_map": {"count": "$params.count", "who": "$params.customer"}},
            "post": {"output_key": "price"},
            "on_error": "sorry",
        },
        "paid": {"kind": "wait_event", "params": {"signal_key": "paid"}},
        "pack": {
            "kind": "subflow",
            "subflow": {
                "start": "box",
                "nodes": {
                    "box": {"kind": "timer", "params": {"delay_ms": 1}},
                    "label": {"kind": "timer", "params": {"delay_ms": 1}},
                },
                "edges": [{"from": "box", "to": "label"}],
            },
        },
        "ship": {
            "kind": "executor",
            "service": "ship",
            "prep": {"input_key": "price"},
            "post": {"output_key": "parcel"},
            "max_retries": 1,
        },
        "sorry": {"kind": "timer", "params": {"delay_ms": 1}},
    },
    "edges": [
        {"from": "size", "action": "large", "to": "ask"},
        {"from": "size", "action": "small", "to": "price"},
        {"from": "ask", "action": "approved", "to": "price"},
        {"from": "ask", "action": "rejected", "to": "sorry"},
        {"from": "price", "to": "paid"},
        {"from": "price", "action": "sorry", "to": "sorry"},
        {"from": "paid", "to": "pack"},
        {"from": "pack", "to": "ship"},
        {"from": "ship", "action": "error", "to": "sorry"},
    ],
}

ASK: Final[dict[str, Any]] = {
    "start": "ask",
    "nodes": {
        "ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}},
        "hear": {"kind": "wait_event", "params": {"signal_key": "go"}},
        "last": {"kind": "timer", "params": {"delay_ms": 1}},
    },
    "edges": [
        {"from": "ask", "action": "approved", "to": "hear"},
        {"from": "ask", "action": "rejected", "to": "last"},
        {"from": "hear", "to": "last"},
    ],
}

REPORT: Final[dict[str, Any]] = {
    "worker_wait_ms": 0,
    "start": "gather",
    "nodes": {
        "gather": {
            "kind": "executor",
            "service": "echo",
            "prep": {"input_key": "$params.month"},
            "post": {"output_key": "month"},
        },
        "render": {"kind": "executor", "service": "render", "prep": {"input_key": "month"}},
    },
    "edges": [{"from": "gather", "to": "render"}],
}
