"""Reading a definition: every fault is named with its place, or the flow is good (I15, R5.2)."""

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
"""With those of its subflows."""
EDGE_COUNT_MAX: Final = 10_000
SUBFLOW_DEPTH_MAX: Final = 16
JSON_DEPTH_MAX: Final = 160
"""Sixteen subflows, and in the innermost an expression as deep as it may be."""

_SUBFLOW_FIELDS: Final = dict.fromkeys(("start", "nodes", "edges"))
_FLOW_FIELDS: Final = {**_SUBFLOW_FIELDS, **FLOW_SETTINGS}
_EDGE_FIELDS: Final = dict.fromkeys(("from", "action", "to"))
_ALL_NODE_FIELDS: Final = {**NODE_FIELDS, "kind": None, "subflow": None}


@dataclass(frozen=True, slots=True)
class ParsedFlow:
    flow: Flow
    warnings: tuple[Diagnostic, ...]
    """What is suspicious, and no reason to refuse it."""
    unknown_fields: tuple[Diagnostic, ...]
    """The warnings about fields that have no effect."""


def parse_flow(
    definition: str | Mapping[str, Any],
    *,
    available: AvailableCallees | None = None,
    default_policy: ErrorPolicy = ErrorPolicy.FOLLOW_DEFAULT,
) -> ParsedFlow:
    """The flow that JSON text, or the value it holds, describes; else InvalidFlow with every fault.

    A service that is not in `offered` is only a warning, because a worker may offer it later.
    `default_policy` is for a definition without one, such as one stored before policies existed.
    """
    report = Diagnostics()
    try:
        value = _decode_definition(definition)
    except InvalidInput as error:
        raise InvalidFlow([Diagnostic(error.field, error.problem)]) from None
    flow = _Parser(report, default_policy).parse_flow(value, "", depth=0)
    if not report.error_count:
        check_graph(flow, report, available=available)
        check_error_handling(flow, report)
    if report.error_count:
        raise InvalidFlow(report.errors)
    return ParsedFlow(flow, report.warnings, report.unknown_fields)


def _decode_definition(definition: str | Mapping[str, Any]) -> Any:
    if isinstance(definition, str):
        return decode_document(definition, field="definition", depth_max=JSON_DEPTH_MAX)
    check_value(definition, field="definition", depth_max=JSON_DEPTH_MAX)
    return definition


class _Parser:
    def __init__(self, report: Diagnostics, default_policy: ErrorPolicy) -> None:
        self._diagnostics = report
        self._settings: dict[str, Any] = {"error_policy": default_policy}
        self._node_count = 0
        self._edge_count = 0

    def parse_flow(self, value: Any, place: str, *, depth: int) -> Flow:
        """It goes one Python frame deeper with each subflow, which are few."""
        report = self._diagnostics
        if not isinstance(value, dict):
            report.add_error(place or "definition", "must be an object with start, nodes and edges")
            return Flow("", {}, ())
        fields = _SUBFLOW_FIELDS if depth else _FLOW_FIELDS
        members = dict(iter_members(value, fields, place, report))
        for name in FLOW_SETTINGS.keys() & members.keys():
            shape, _ = FLOW_SETTINGS[name]
            self._settings[name] = shape.parse(members[name], join_path(place, name), report)
        nodes_place = join_path(place, "nodes")
        found = members.get("nodes")
        if not isinstance(found, dict) or not found:
            report.add_error(nodes_place, "must be an object with one node or more")
            found = {}
        edges = self._parse_edges(members.get("edges"), join_path(place, "edges"), found)
        start = members.get("start")
        if not isinstance(start, str):
            report.add_error(join_path(place, "start"), "must be the key of the first node")
        elif found and start not in found:
            report.add_error(join_path(place, "start"), f"there is no node {quote_text(start)}")
        nodes = self._parse_nodes(found, nodes_place, edges, depth)
        return Flow(str(start), nodes, edges, **self._settings)

    def _parse_nodes(
        self, found: dict[str, Any], place: str, edges: tuple[Edge, ...], depth: int
    ) -> dict[str, Node]:
        self._node_count += len(found)
        if self._node_count > NODE_COUNT_MAX:
            self._diagnostics.add_error(
                place, f"a flow has at most {NODE_COUNT_MAX:,} nodes in all"
            )
            return {}
        leaving: dict[str, dict[str, str]] = {}
        for edge in edges:
            leaving.setdefault(edge.source, {})[edge.action] = edge.target
        nodes: dict[str, Node] = {}
        for key, value in found.items():
            at = join_path(place, key)
            if not key:
                self._diagnostics.add_error(at, "a node's key must not be empty")
            Text().parse(key, at, self._diagnostics)
            node = self._parse_node(key, value, at, leaving.get(key, {}), depth)
            if node is not None:
                nodes[key] = node
        return nodes

    def _parse_node(
        self, key: str, value: Any, place: str, edges: Mapping[str, str], depth: int
    ) -> Node | None:
        report = self._diagnostics
        faults_before = report.error_count
        members = dict(iter_members(value, _ALL_NODE_FIELDS, place, report))
        if report.error_count > faults_before:
            return None
        kind = EnumValue(Kind).parse(members.pop("kind", None), join_path(place, "kind"), report)
        if not isinstance(kind, Kind):
            return None
        values: dict[str, Any] = {}
        if "subflow" in members:
            inside = members.pop("subflow")
            values["subflow"] = self._parse_subflow(
                inside, kind, join_path(place, "subflow"), depth
            )
        for name, one in members.items():
            field = NODE_FIELDS[name]
            if field.kinds is None or kind in field.kinds:
                values[name] = field.shape.parse(one, join_path(place, name), report)
            else:
                report.add_warning(
                    join_path(place, name), f"means nothing to a node of kind {kind}"
                )
        node = Node(key=key, kind=kind, edges=edges, **values)
        if report.error_count == faults_before:
            HANDLERS[kind].check(node, place, report)
        return node

    def _parse_subflow(self, value: Any, kind: Kind, place: str, depth: int) -> Flow | None:
        if kind is not Kind.SUBFLOW:
            self._diagnostics.add_warning(place, f"means nothing to a node of kind {kind}")
            return None
        if depth == SUBFLOW_DEPTH_MAX:
            problem = f"subflows are nested deeper than {SUBFLOW_DEPTH_MAX} levels"
            self._diagnostics.add_error(place, problem)
            return None
        return self.parse_flow(value, place, depth=depth + 1)

    def _parse_edges(self, value: Any, place: str, nodes: Mapping[str, Any]) -> tuple[Edge, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self._diagnostics.add_error(place, "must be a list")
            return ()
        self._edge_count += len(value)
        if self._edge_count > EDGE_COUNT_MAX:
            self._diagnostics.add_error(
                place, f"a flow has at most {EDGE_COUNT_MAX:,} edges in all"
            )
            return ()
        edges: dict[tuple[str, str], Edge] = {}
        for index, one in enumerate(value):
            at = f"{place}[{index}]"
            edge = self._parse_edge(one, at, nodes)
            if edge is None:
                continue
            if (edge.source, edge.action) in edges:
                of = f"{quote_text(edge.source)} with action {quote_text(edge.action)}"
                self._diagnostics.add_error(at, f"is a second edge from {of}")
            edges[edge.source, edge.action] = edge
        return tuple(sorted(edges.values()))

    def _parse_edge(self, value: Any, place: str, nodes: Mapping[str, Any]) -> Edge | None:
        report = self._diagnostics
        faults_before = report.error_count
        members = dict(iter_members(value, _EDGE_FIELDS, place, report))
        texts = {
            name: Text().parse(one, join_path(place, name), report) for name, one in members.items()
        }
        if report.error_count > faults_before:
            return None
        source, target = texts.get("from", ""), texts.get("to", END)
        if not source:
            report.add_error(join_path(place, "from"), "must be the key of a node")
        elif nodes and source not in nodes:
            report.add_error(join_path(place, "from"), f"there is no node {quote_text(source)}")
        if target != END and nodes and target not in nodes:
            report.add_error(join_path(place, "to"), f"there is no node {quote_text(target)}")
        return Edge(source, texts.get("action", DEFAULT), target)
