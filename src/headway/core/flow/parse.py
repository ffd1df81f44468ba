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
from headway.core.flow.definition.diagnostics import Fault, Report, member, shown
from headway.core.flow.definition.error_handling import check_handling
from headway.core.flow.definition.graph import Offered, warn_of_graph
from headway.core.flow.definition.shapes import Text, Word, members_of
from headway.core.flow.engine.fields import FLOW_SETTINGS, NODE_FIELDS
from headway.core.flow.engine.kinds import KINDS

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
class Published:
    flow: Flow
    warnings: tuple[Fault, ...]
    """What is suspicious, and no reason to refuse it."""
    unknown_fields: tuple[Fault, ...]
    """The warnings about fields that have no effect."""


def read_flow(
    definition: str | Mapping[str, Any],
    *,
    offered: Offered | None = None,
    default_policy: ErrorPolicy = ErrorPolicy.FOLLOW_DEFAULT,
) -> Published:
    """The flow that JSON text, or the value it holds, describes; else InvalidFlow with every fault.

    A service that is not in `offered` is only a warning, because a worker may offer it later.
    `default_policy` is for a definition without one, such as one stored before policies existed.
    """
    report = Report()
    try:
        value = _as_value(definition)
    except InvalidInput as error:
        raise InvalidFlow([Fault(error.place, error.problem)]) from None
    flow = _Reader(report, default_policy).flow(value, "", depth=0)
    if not report.fault_count:
        warn_of_graph(flow, report, offered=offered)
        check_handling(flow, report)
    if report.fault_count:
        raise InvalidFlow(report.faults)
    return Published(flow, report.warnings, report.unknown_fields)


def _as_value(definition: str | Mapping[str, Any]) -> Any:
    if isinstance(definition, str):
        return decode_document(definition, place="definition", depth_max=JSON_DEPTH_MAX)
    check_value(definition, place="definition", depth_max=JSON_DEPTH_MAX)
    return definition


class _Reader:
    def __init__(self, report: Report, default_policy: ErrorPolicy) -> None:
        self._report = report
        self._settings: dict[str, Any] = {"error_policy": default_policy}
        self._node_count = 0
        self._edge_count = 0

    def flow(self, value: Any, place: str, *, depth: int) -> Flow:
        """It goes one Python frame deeper with each subflow, which are few."""
        report = self._report
        if not isinstance(value, dict):
            report.fault(place or "definition", "must be an object with start, nodes and edges")
            return Flow("", {}, ())
        fields = _SUBFLOW_FIELDS if depth else _FLOW_FIELDS
        members = dict(members_of(value, fields, place, report))
        for name in FLOW_SETTINGS.keys() & members.keys():
            shape, _ = FLOW_SETTINGS[name]
            self._settings[name] = shape.read(members[name], member(place, name), report)
        nodes_place = member(place, "nodes")
        found = members.get("nodes")
        if not isinstance(found, dict) or not found:
            report.fault(nodes_place, "must be an object with one node or more")
            found = {}
        edges = self._edges(members.get("edges"), member(place, "edges"), found)
        start = members.get("start")
        if not isinstance(start, str):
            report.fault(member(place, "start"), "must be the key of the first node")
        elif found and start not in found:
            report.fault(member(place, "start"), f"there is no node {shown(start)}")
        nodes = self._nodes(found, nodes_place, edges, depth)
        return Flow(str(start), nodes, edges, **self._settings)

    def _nodes(
        self, found: dict[str, Any], place: str, edges: tuple[Edge, ...], depth: int
    ) -> dict[str, Node]:
        self._node_count += len(found)
        if self._node_count > NODE_COUNT_MAX:
            self._report.fault(place, f"a flow has at most {NODE_COUNT_MAX:,} nodes in all")
            return {}
        leaving: dict[str, dict[str, str]] = {}
        for edge in edges:
            leaving.setdefault(edge.source, {})[edge.action] = edge.target
        nodes: dict[str, Node] = {}
        for key, value in found.items():
            at = member(place, key)
            if not key:
                self._report.fault(at, "a node's key must not be empty")
            Text().read(key, at, self._report)
            node = self._node(key, value, at, leaving.get(key, {}), depth)
            if node is not None:
                nodes[key] = node
        return nodes

    def _node(
        self, key: str, value: Any, place: str, edges: Mapping[str, str], depth: int
    ) -> Node | None:
        report = self._report
        faults_before = report.fault_count
        members = dict(members_of(value, _ALL_NODE_FIELDS, place, report))
        if report.fault_count > faults_before:
            return None
        kind = Word(Kind).read(members.pop("kind", None), member(place, "kind"), report)
        if not isinstance(kind, Kind):
            return None
        values: dict[str, Any] = {}
        if "subflow" in members:
            inside = members.pop("subflow")
            values["subflow"] = self._subflow(inside, kind, member(place, "subflow"), depth)
        for name, one in members.items():
            field = NODE_FIELDS[name]
            if field.kinds is None or kind in field.kinds:
                values[name] = field.shape.read(one, member(place, name), report)
            else:
                report.warn(member(place, name), f"means nothing to a node of kind {kind}")
        node = Node(key=key, kind=kind, edges=edges, **values)
        if report.fault_count == faults_before:
            KINDS[kind].check(node, place, report)
        return node

    def _subflow(self, value: Any, kind: Kind, place: str, depth: int) -> Flow | None:
        if kind is not Kind.SUBFLOW:
            self._report.warn(place, f"means nothing to a node of kind {kind}")
            return None
        if depth == SUBFLOW_DEPTH_MAX:
            problem = f"subflows are nested deeper than {SUBFLOW_DEPTH_MAX} levels"
            self._report.fault(place, problem)
            return None
        return self.flow(value, place, depth=depth + 1)

    def _edges(self, value: Any, place: str, nodes: Mapping[str, Any]) -> tuple[Edge, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self._report.fault(place, "must be a list")
            return ()
        self._edge_count += len(value)
        if self._edge_count > EDGE_COUNT_MAX:
            self._report.fault(place, f"a flow has at most {EDGE_COUNT_MAX:,} edges in all")
            return ()
        edges: dict[tuple[str, str], Edge] = {}
        for index, one in enumerate(value):
            at = f"{place}[{index}]"
            edge = self._edge(one, at, nodes)
            if edge is None:
                continue
            if (edge.source, edge.action) in edges:
                of = f"{shown(edge.source)} with action {shown(edge.action)}"
                self._report.fault(at, f"is a second edge from {of}")
            edges[edge.source, edge.action] = edge
        return tuple(sorted(edges.values()))

    def _edge(self, value: Any, place: str, nodes: Mapping[str, Any]) -> Edge | None:
        report = self._report
        faults_before = report.fault_count
        members = dict(members_of(value, _EDGE_FIELDS, place, report))
        texts = {
            name: Text().read(one, member(place, name), report) for name, one in members.items()
        }
        if report.fault_count > faults_before:
            return None
        source, target = texts.get("from", ""), texts.get("to", END)
        if not source:
            report.fault(member(place, "from"), "must be the key of a node")
        elif nodes and source not in nodes:
            report.fault(member(place, "from"), f"there is no node {shown(source)}")
        if target != END and nodes and target not in nodes:
            report.fault(member(place, "to"), f"there is no node {shown(target)}")
        return Edge(source, texts.get("action", DEFAULT), target)
