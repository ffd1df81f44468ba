"""Warnings about a valid graph: unreachable nodes, loops without a wait, missing callees."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from headway.core.flow.definition.definition import END, WAITING_KINDS, Flow, Kind, Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path, quote_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableCallees:
    """The services, functions and flows that exist when a definition is published."""

    services: Collection[str] = ()
    functions: Collection[str] = ()
    flows: Collection[str] = ()


def check_graph(
    flow: Flow, diagnostics: Diagnostics, *, available: AvailableCallees | None
) -> None:
    """Warn about unreachable nodes, loops without a wait, and callees that are not `available`."""
    for path, inner in iter_flows(flow):
        nodes_path = join_path(path, "nodes")
        reached = _find_reachable(inner)
        for key in inner.nodes:
            if key not in reached:
                diagnostics.add_warning(
                    join_path(nodes_path, key), "is never reached; add an edge to it or remove it"
                )
        for loop in _find_loops(inner, lambda node: node.kind not in WAITING_KINDS):
            size = "1 node" if len(loop) == 1 else f"{len(loop)} nodes"
            diagnostics.add_warning(
                join_path(nodes_path, min(loop)),
                f"is in a loop of {size} without a wait; make sure that it ends, or add a timer",
            )
        if available is not None:
            for node in inner.nodes.values():
                _check_callees(node, join_path(nodes_path, node.key), diagnostics, available)


def iter_flows(flow: Flow) -> Iterator[tuple[str, Flow]]:
    """Yield the flow and its subflows, each with its path in the definition."""
    pending = [("", flow)]
    while pending:
        path, current = pending.pop()
        yield path, current
        for node in current.nodes.values():
            if node.subflow is not None:
                subflow_path = join_path(join_path(join_path(path, "nodes"), node.key), "subflow")
                pending.append((subflow_path, node.subflow))


def _check_callees(
    node: Node, path: str, diagnostics: Diagnostics, available: AvailableCallees
) -> None:
    for service in (node.service, *node.parallel_services):
        if service and service not in available.services:
            diagnostics.add_warning(
                path,
                f"calls the service {quote_text(service)}, which no live worker offers;"
                " start a worker that offers it",
            )
    if node.function and node.function not in available.functions:
        diagnostics.add_warning(
            path,
            f"calls the function {quote_text(node.function)}, which this process has not"
            " registered; register it with `flows.function`",
        )
    if node.flow and node.flow not in available.flows:
        diagnostics.add_warning(
            path,
            f"calls the flow {quote_text(node.flow)}, which has not been published; publish it",
        )


def _find_reachable(flow: Flow) -> set[str]:
    reached = {flow.start}
    pending = [flow.start]
    while pending:
        unseen = _targets(flow.nodes[pending.pop()]) - reached
        reached |= unseen
        pending.extend(unseen)
    return reached


def _targets(node: Node) -> set[str]:
    if node.kind is Kind.FAIL:
        return set()
    return set(node.edges.values()) - {END}


def _find_loops(flow: Flow, is_included: Callable[[Node], bool]) -> Iterator[set[str]]:
    """Yield each strongly connected component of the included nodes that contains a cycle.

    Uses Kosaraju's two depth-first passes without recursion, because a flow may be a chain of 2,000
    nodes.
    """
    forward = {
        key: [to for to in _targets(node) if is_included(flow.nodes[to])]
        for key, node in flow.nodes.items()
        if is_included(node)
    }
    backward: dict[str, list[str]] = {key: [] for key in forward}
    for key, targets in forward.items():
        for target in targets:
            backward[target].append(key)
    seen: set[str] = set()
    finished = [key for root in forward for key in _finish_order(root, forward, seen)]
    seen.clear()
    for root in reversed(finished):
        component = set(_finish_order(root, backward, seen))
        if len(component) > 1 or (component and root in forward[root]):
            yield component


def _finish_order(root: str, targets: Mapping[str, list[str]], seen: set[str]) -> list[str]:
    """Return the unseen nodes reachable from `root`, in depth-first finishing order."""
    if root in seen:
        return []
    seen.add(root)
    finished: list[str] = []
    stack = [(root, iter(targets[root]))]
    while stack:
        key, rest = stack[-1]
        unseen = next((to for to in rest if to not in seen), None)
        if unseen is None:
            stack.pop()
            finished.append(key)
        else:
            seen.add(unseen)
            stack.append((unseen, iter(targets[unseen])))
    return finished
