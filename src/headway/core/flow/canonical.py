"""The canonical JSON of a flow, which is the same text for equal flows.

Its fields are sorted by name. Fields that have no effect are left out.
"""

import json
from typing import Any, Final

from headway.core.document import Document
from headway.core.flow.definition.definition import Flow, Kind, Node
from headway.core.flow.engine.fields import FLOW_SETTINGS, NODE_FIELDS

_encode: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def canonical_json(flow: Flow) -> Document:
    """Return the canonical JSON of `flow`, which parses to the same flow.

    The text always contains the error policy.
    """
    settings = {
        name: shape.to_json(getattr(flow, name))
        for name, (shape, _) in FLOW_SETTINGS.items()
        if name != "worker_wait_ms" or flow.fails_on_error
    }
    return Document(_encode(to_definition(flow) | settings))


def to_definition(flow: Flow) -> dict[str, Any]:
    return {
        "start": flow.start,
        "nodes": {key: _to_node_definition(node) for key, node in flow.nodes.items()},
        "edges": [
            {"from": edge.source, "action": edge.action, "to": edge.target} for edge in flow.edges
        ],
    }


def _to_node_definition(node: Node) -> dict[str, Any]:
    defaults = Node(key=node.key, kind=node.kind)
    definition = {
        name: field.shape.to_json(getattr(node, name))
        for name, field in NODE_FIELDS.items()
        if getattr(node, name) != getattr(defaults, name)
    }
    if node.kind is Kind.SUBFLOW and node.subflow is not None:
        definition["subflow"] = to_definition(node.subflow)
    return definition | {"kind": node.kind.value}
