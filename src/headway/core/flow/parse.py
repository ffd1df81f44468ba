"""Parse a flow definition. Every error is reported with its path (I15, R5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headway.core.document import check_value, decode_document
from headway.core.errors import InvalidFlow, InvalidInput
from headway.core.flow.definition.definition import (
    DEFAULT,
    END,
    Edge,
    ErrorPolicy,
    Flow,
    Kind,
    Node,
)
from headway.core.flow.definition.diagnostics import Diagnostic, Diagnostics, join_path, quote_text
from headway.core.flow.definition.error_handling import check_error_handling
from headway.core.flow.definition.graph import AvailableCallees, check_graph
from headway.core.flow.definition.shapes import EnumValue, Text, iter_members
from headway.core.flow.engine.fields import FLOW_SETTINGS, NODE_FIELDS
from headway.core.flow.engine.kinds import HANDLERS

NODE_COUNT_MAX: Final = 2_000
"""The maximum number of nodes in a definition, including the nodes of its subflows."""
EDGE_COUNT_MAX: Final = 10_000
"""The maximum number of edges in a definition, including the edges of its subflows."""
SUBFLOW_DEPTH_MAX: Final = 16
JSON_DEPTH_MAX: Final = 160
"""The maximum depth of a definition's JSON.

This is enough for 16 nested subflows if the innermost one has an expression of maximum depth.
"""

_SUBFLOW_FIELDS: Final = dict.fromkeys(("start", "nodes", "edges"))
_FLOW_FIELDS: Final = {**_SUBFLOW_FIELDS, **FLOW_SETTINGS}
_EDGE_FIELDS: Final = dict.fromkeys(("from", "action", "to"))
_ALL_NODE_FIELDS: Final = {**NODE_FIELDS, "kind": None, "subflow": None}


@dataclass(frozen=True, slots=True)
class ParsedFlow:
    flow: Flow
    warnings: tuple[Diagnostic, ...]
    """Problems that do not make the definition invalid."""
    unknown_fields: tuple[Diagnostic, ...]
    """The warnings about unknown fields. They are also in `warnings`."""


def parse_flow(
    definition: str | Mapping[str, Any],
    *,
    available: AvailableCallees | None = None,
    default_policy: ErrorPolicy = ErrorPolicy.FOLLOW_DEFAULT,
) -> ParsedFlow:
    """Parse a definition, given as JSON text or as an object. Raise InvalidFlow with all errors.

    A service that is not in `available` causes only a warning, because a worker may offer it later.
    `default_policy` applies to a definition that names no policy. Definitions that were stored
    before policies existed name none.
    """
    diagnostics = Diagnostics()
    try:
        value = _decode_definition(definition)
    except InvalidInput as error:
        raise InvalidFlow([Diagnostic(error.field, error.problem)]) from None
    flow = _Parser(diagnostics, default_policy).parse_flow(value, "", depth=0)
    if not diagnostics.error_count:
        check_graph(flow, diagnostics, available=available)
        check_error_handling(flow, diagnostics)
    if diagnostics.error_count:
        raise InvalidFlow(diagnostics.errors)
    return ParsedFlow(flow, diagnostics.warnings, diagnostics.unknown_fields)


def _decode_definition(definition: str | Mapping[str, Any]) -> Any:
    if isinstance(definition, str):
        return decode_document(definition, field="definition", depth_max=JSON_DEPTH_MAX)
    check_value(definition, field="definition", depth_max=JSON_DEPTH_MAX)
    return definition


class _Parser:
    def __init__(self, diagnostics: Diagnostics, default_policy: ErrorPolicy) -> None:
        self._diagnostics = diagnostics
        self._settings: dict[str, Any] = {"error_policy": default_policy}
        self._node_count = 0
        self._edge_count = 0

    def parse_flow(self, value: Any, path: str, *, depth: int) -> Flow:
        """Parse a flow or subflow. The recursion is at most SUBFLOW_DEPTH_MAX levels deep."""
        diagnostics = self._diagnostics
        if not isinstance(value, dict):
            diagnostics.add_error(
                path or "definition", "must be an object with start, nodes and edges"
            )
            return Flow("", {}, ())
        fields = _SUBFLOW_FIELDS if depth else _FLOW_FIELDS
        members = dict(iter_members(value, fields, path, diagnostics))
        for name in FLOW_SETTINGS.keys() & members.keys():
            shape, _ = FLOW_SETTINGS[name]
            self._settings[name] = shape.parse(members[name], join_path(path, name), diagnostics)
        nodes_path = join_path(path, "nodes")
        raw_nodes = members.get("nodes")
        if not isinstance(raw_nodes, dict) or not raw_nodes:
            diagnostics.add_error(nodes_path, "must be an object with at least one node")
            raw_nodes = {}
        edges = self._parse_edges(members.get("edges"), join_path(path, "edges"), raw_nodes)
        start = members.get("start")
        if not isinstance(start, str):
            diagnostics.add_error(join_path(path, "start"), "must be the key of the first node")
        elif raw_nodes and start not in raw_nodes:
            diagnostics.add_error(join_path(path, "start"), _unknown_node(start))
        nodes = self._parse_nodes(raw_nodes, nodes_path, edges, depth)
        return Flow(str(start), nodes, edges, **self._settings)

    def _parse_nodes(
        self, raw_nodes: dict[str, Any], path: str, edges: tuple[Edge, ...], depth: int
    ) -> dict[str, Node]:
        self._node_count += len(raw_nodes)
        if self._node_count > NODE_COUNT_MAX:
            self._diagnostics.add_error(
                path, f"a flow and its subflows have at most {NODE_COUNT_MAX:,} nodes; split it"
            )
            return {}
        edges_by_source: dict[str, dict[str, str]] = {}
        for edge in edges:
            edges_by_source.setdefault(edge.source, {})[edge.action] = edge.target
        nodes: dict[str, Node] = {}
        for key, value in raw_nodes.items():
            node_path = join_path(path, key)
            if not key:
                self._diagnostics.add_error(node_path, "a node's key must not be empty")
            Text().parse(key, node_path, self._diagnostics)
            node = self._parse_node(key, value, node_path, edges_by_source.get(key, {}), depth)
            if node is not None:
                nodes[key] = node
        return nodes

    def _parse_node(
        self, key: str, value: Any, path: str, edges: Mapping[str, str], depth: int
    ) -> Node | None:
        diagnostics = self._diagnostics
        error_count_before = diagnostics.error_count
        members = dict(iter_members(value, _ALL_NODE_FIELDS, path, diagnostics))
        if diagnostics.error_count > error_count_before:
            return None
        kind = EnumValue(Kind).parse(
            members.pop("kind", None), join_path(path, "kind"), diagnostics
        )
        if not isinstance(kind, Kind):
            return None
        values: dict[str, Any] = {}
        if "subflow" in members:
            raw_subflow = members.pop("subflow")
            values["subflow"] = self._parse_subflow(
                raw_subflow, kind, join_path(path, "subflow"), depth
            )
        for name, raw_value in members.items():
            field = NODE_FIELDS[name]
            if field.kinds is None or kind in field.kinds:
                values[name] = field.shape.parse(raw_value, join_path(path, name), diagnostics)
            else:
                diagnostics.add_warning(
                    join_path(path, name), f"has no effect on a node of kind {kind}; remove it"
                )
        node = Node(key=key, kind=kind, edges=edges, **values)
        if diagnostics.error_count == error_count_before:
            HANDLERS[kind].check(node, path, diagnostics)
        return node

    def _parse_subflow(self, value: Any, kind: Kind, path: str, depth: int) -> Flow | None:
        if kind is not Kind.SUBFLOW:
            self._diagnostics.add_warning(
                path, f"has no effect on a node of kind {kind}; remove it"
            )
            return None
        if depth == SUBFLOW_DEPTH_MAX:
            problem = f"is nested deeper than {SUBFLOW_DEPTH_MAX} subflows; use flow_ref instead"
            self._diagnostics.add_error(path, problem)
            return None
        return self.parse_flow(value, path, depth=depth + 1)

    def _parse_edges(self, value: Any, path: str, nodes: Mapping[str, Any]) -> tuple[Edge, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self._diagnostics.add_error(path, "must be a list of edges")
            return ()
        self._edge_count += len(value)
        if self._edge_count > EDGE_COUNT_MAX:
            self._diagnostics.add_error(
                path, f"a flow and its subflows have at most {EDGE_COUNT_MAX:,} edges; split it"
            )
            return ()
        edges: dict[tuple[str, str], Edge] = {}
        for index, raw_edge in enumerate(value):
            edge_path = f"{path}[{index}]"
            edge = self._parse_edge(raw_edge, edge_path, nodes)
            if edge is None:
                continue
            if (edge.source, edge.action) in edges:
                origin = f"{quote_text(edge.source)} with action {quote_text(edge.action)}"
                self._diagnostics.add_error(
                    edge_path, f"is a second edge from {origin}; remove one"
                )
            edges[edge.source, edge.action] = edge
        return tuple(sorted(edges.values()))

    def _parse_edge(self, value: Any, path: str, nodes: Mapping[str, Any]) -> Edge | None:
        diagnostics = self._diagnostics
        error_count_before = diagnostics.error_count
        members = dict(iter_members(value, _EDGE_FIELDS, path, diagnostics))
        texts = {
            name: Text().parse(text, join_path(path, name), diagnostics)
            for name, text in members.items()
        }
        if diagnostics.error_count > error_count_before:
            return None
        source, target = texts.get("from", ""), texts.get("to", END)
        if not source:
            diagnostics.add_error(join_path(path, "from"), "must be the key of a node")
        elif nodes and source not in nodes:
            diagnostics.add_error(join_path(path, "from"), _unknown_node(source))
        if target != END and nodes and target not in nodes:
            diagnostics.add_error(join_path(path, "to"), _unknown_node(target))
        return Edge(source, texts.get("action", DEFAULT), target)


def _unknown_node(key: str) -> str:
    return f"there is no node {quote_text(key)}; use a key of `nodes`"
