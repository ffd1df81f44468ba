"""The JSON Schema of a definition, for editors: derived from the table that also reads it.

What a schema cannot say (that an edge's end exists, that a path can be read) is said when the flow
is published. Names are matched in lower case here; publishing takes any.
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
    """A new one with each call, for the caller to keep."""
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
    """Of fields that mean nothing to the kind it says nothing, as publishing only warns of them."""
    of_kinds: list[dict[str, Any]] = []
    common: dict[str, Any] = {"kind": {"enum": [kind.value for kind in Kind]}}
    for name, field in NODE_FIELDS.items():
        told = or_empty(field.shape.schema()) | {"description": field.description}
        if field.kinds is None:
            common[name] = told
        else:
            of_kinds.append(_for_kinds(sorted(field.kinds), {name: told}))
    inside = {"subflow": or_empty({"$ref": "#/$defs/flow"})}
    of_kinds.append(_for_kinds([Kind.SUBFLOW], inside))
    nothing: JsonSchema = {"enum": [None, "", [], {}]}
    unsupported = dict.fromkeys(sorted(UNSUPPORTED_FIELDS), nothing)
    unsupported["exec_type"] = {"enum": [*nothing["enum"], EXEC_TYPE]}
    return {
        "type": "object",
        "properties": common | unsupported,
        "patternProperties": {f"{UNSUPPORTED_SUFFIX}$": nothing},
        "required": ["kind"],
        "allOf": of_kinds,
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
