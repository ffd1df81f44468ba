"""The JSON Schema of flow definitions, for editors. It is derived from the parser's tables.

A schema cannot check everything: for example, that an edge's target exists or that a path can be
parsed. Such errors are reported when the flow is published. The schema matches field names in
lower case only; publishing accepts any case.
"""

from typing import Any

from headway.core.flow.definition.definition import Kind
from headway.core.flow.definition.shapes import (
    EXEC_TYPE,
    UNSUPPORTED_FIELDS,
    UNSUPPORTED_SUFFIX,
    JsonSchema,
    Text,
)
from headway.core.flow.engine.fields import FLOW_SETTINGS, NODE_FIELDS, or_empty
from headway.core.flow.parse import EDGE_COUNT_MAX, NODE_COUNT_MAX

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def definition_schema() -> JsonSchema:
    """Return the JSON Schema of a definition. The caller may modify the returned object."""
    return {
        "$schema": DIALECT,
        "title": "A flow",
        "$ref": "#/$defs/flow",
        "properties": {
            name: or_empty(shape.schema()) | {"description": about}
            for name, (shape, about) in FLOW_SETTINGS.items()
        },
        "$defs": {"flow": _flow_schema(), "node": _node_schema(), "edge": _edge_schema()},
    }


def _flow_schema() -> JsonSchema:
    return {
        "type": "object",
        "properties": {
            "start": {"type": "string", "minLength": 1},
            "nodes": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": NODE_COUNT_MAX,
                "additionalProperties": {"$ref": "#/$defs/node"},
            },
            "edges": or_empty(
                {"type": "array", "items": {"$ref": "#/$defs/edge"}, "maxItems": EDGE_COUNT_MAX}
            ),
        },
        "required": ["start", "nodes"],
    }


def _node_schema() -> JsonSchema:
    """Return the schema of a node.

    Fields that have no effect for the node's kind are not constrained, because publishing only
    warns about them.
    """
    conditions: list[dict[str, Any]] = []
    common: dict[str, Any] = {"kind": {"enum": [kind.value for kind in Kind]}}
    for name, field in NODE_FIELDS.items():
        schema = or_empty(field.shape.schema()) | {"description": field.description}
        if field.kinds is None:
            common[name] = schema
        else:
            conditions.append(_for_kinds(sorted(field.kinds), {name: schema}))
    subflow = {"subflow": or_empty({"$ref": "#/$defs/flow"})}
    conditions.append(_for_kinds([Kind.SUBFLOW], subflow))
    empty: JsonSchema = {"enum": [None, "", [], {}]}
    unsupported = dict.fromkeys(sorted(UNSUPPORTED_FIELDS), empty)
    unsupported["exec_type"] = {"enum": [*empty["enum"], EXEC_TYPE]}
    return {
        "type": "object",
        "properties": common | unsupported,
        "patternProperties": {f"{UNSUPPORTED_SUFFIX}$": empty},
        "required": ["kind"],
        "allOf": conditions,
    }


def _for_kinds(kinds: list[Kind], properties: dict[str, Any]) -> JsonSchema:
    return {
        "if": {"properties": {"kind": {"enum": [kind.value for kind in kinds]}}},
        "then": {"properties": properties},
    }


def _edge_schema() -> JsonSchema:
    text = Text().schema()
    return {
        "type": "object",
        "properties": {
            "from": text | {"minLength": 1},
            "action": or_empty(text),
            "to": or_empty(text),
        },
        "required": ["from"],
    }
