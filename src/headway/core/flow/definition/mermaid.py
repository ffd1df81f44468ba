"""A flow as a Mermaid diagram.

Keys come from users, so every character that is not known to be harmless is escaped.
"""

import re
from collections.abc import Iterator
from typing import Final

from headway.core.flow.definition.definition import DEFAULT, END, Flow, Kind, Node

_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.,:/-]")
_LABEL_LENGTH_MAX: Final = 80
_SHAPES: Final[dict[Kind, tuple[str, str]]] = {
    Kind.EXECUTOR: ("[", "]"),
    Kind.LOCAL: ("[", "]"),
    Kind.SUBFLOW: ("[", "]"),
    Kind.CHOICE: ("{", "}"),
    Kind.TIMER: ("([", "])"),
    Kind.WAIT_EVENT: ("([", "])"),
    Kind.APPROVAL: ("[/", "/]"),
    Kind.PARALLEL: ("[[", "]]"),
    Kind.FOREACH: ("[[", "]]"),
    Kind.FLOW_REF: ("[[", "]]"),
    Kind.FAIL: ("((", "))"),
}


def to_mermaid(flow: Flow) -> str:
    return "\n".join(["flowchart TD", *_flow_lines(flow, "n", "  ")]) + "\n"


def _flow_lines(flow: Flow, prefix: str, indent: str) -> Iterator[str]:
    """Yield the lines of a flow. Node ids contain no keys, so no key can break the syntax."""
    ids = {key: f"{prefix}{number}" for number, key in enumerate(flow.nodes)}
    yield f"{indent}{prefix}start(( )) --> {ids[flow.start]}"
    for node in flow.nodes.values():
        yield from _node_lines(node, ids[node.key], indent)
    for edge in flow.edges:
        target = f"{prefix}end((( )))" if edge.target == END else ids[edge.target]
        label = "" if edge.action == DEFAULT else f'|"{_escape(edge.action)}"|'
        yield f"{indent}{ids[edge.source]} -->{label} {target}"


def _node_lines(node: Node, node_id: str, indent: str) -> Iterator[str]:
    if node.subflow is not None:
        yield f'{indent}subgraph {node_id}["{_escape(node.key)}"]'
        yield from _flow_lines(node.subflow, f"{node_id}_", indent + "  ")
        yield f"{indent}end"
        return
    opened, closed = _SHAPES[node.kind]
    callee = node.service or node.function or node.flow or ", ".join(node.parallel_services)
    label = f"{node.key}: {callee}" if callee else f"{node.key}: {node.kind.value}"
    yield f'{indent}{node_id}{opened}"{_escape(label)}"{closed}'


def _escape(text: str) -> str:
    cut = text if len(text) <= _LABEL_LENGTH_MAX else f"{text[:_LABEL_LENGTH_MAX]}…"
    return "".join(char if _PLAIN.match(char) else f"#{ord(char)};" for char in cut)
