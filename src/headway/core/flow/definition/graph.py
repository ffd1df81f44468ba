"""What is suspicious about a good definition: nodes never reached, loops that never wait."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headway.core.flow.definition.definition import END, Flow, Kind, Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path, quote_text

_WAITING_KINDS: Final = frozenset({Kind.TIMER, Kind.WAIT_EVENT, Kind.APPROVAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableCallees:
    """What there is to be called at the time of publishing."""

    services: Collection[str] = ()
    functions: Collection[str] = ()
    flows: Collection[str] = ()


def check_graph(flow: Flow, report: Diagnostics, *, available: AvailableCallees | None) -> None:
    for place, inside in iter_flows(flow):
        nodes_place = join_path(place, "nodes")
        reached = _find_reachable(inside)
        for key in inside.nodes:
            if key not in reached:
                report.add_warning(join_path(nodes_place, key), "is never reached")
        for loop in _find_loops(inside, lambda node: node.kind not in _WAITING_KINDS):
            first = min(loop)
            on = "itself" if len(loop) == 1 else f"{len(loop)} nodes"
            report.add_warning(
                join_path(nodes_place, first), f"is in a loop over {on} without a wait"
            )
        if available is not None:
            for node in inside.nodes.values():
                _check_callees(node, join_path(nodes_place, node.key), report, available)


def iter_flows(flow: Flow) -> Iterator[tuple[str, Flow]]:
    """Yield the flow and its subflows, each with its path in the definition."""
    waiting = [("", flow)]
    while waiting:
        place, one = waiting.pop()
        yield place, one
        for node in one.nodes.values():
            if node.subflow is not None:
                at = join_path(join_path(join_path(place, "nodes"), node.key), "subflow")
                waiting.append((at, node.subflow))


def _check_callees(node: Node, place: str, report: Diagnostics, offered: AvailableCallees) -> None:
    services = (node.service, *node.parallel_services)
    wanted: tuple[tuple[str, str, Collection[str]], ...] = (
        *(("service", name, offered.services) for name in services),
        ("function", node.function, offered.functions),
        ("flow", node.flow, offered.flows),
    )
    for what, name, there in wanted:
        if name and name not in there:
            report.add_warning(
                place, f"wants the {what} {quote_text(name)}, which nobody offers yet"
            )


def _find_reachable(flow: Flow) -> set[str]:
    reached = {flow.start}
    waiting = [flow.start]
    while waiting:
        fresh = _targets(flow.nodes[waiting.pop()]) - reached
        reached |= fresh
        waiting.extend(fresh)
    return reached


def _targets(node: Node) -> set[str]:
    if node.kind is Kind.FAIL:
        return set()
    return set(node.edges.values()) - {END}


def _find_loops(flow: Flow, is_wanted: Callable[[Node], bool]) -> Iterator[set[str]]:
    """The strongly connected parts of these nodes in which one can go round.

    Kosaraju's two walks, without recursion: a flow may be a line of two thousand nodes.
    """
    forward = {
        key: [to for to in _targets(node) if is_wanted(flow.nodes[to])]
        for key, node in flow.nodes.items()
        if is_wanted(node)
    }
    backward: dict[str, list[str]] = {key: [] for key in forward}
    for key, targets in forward.items():
        for target in targets:
            backward[target].append(key)
    seen: set[str] = set()
    ended = [key for root in forward for key in _finish_order(root, forward, seen)]
    seen.clear()
    for root in reversed(ended):
        part = set(_finish_order(root, backward, seen))
        if len(part) > 1 or (part and root in forward[root]):
            yield part


def _finish_order(root: str, targets: Mapping[str, list[str]], seen: set[str]) -> list[str]:
    """Depth first from `root`: the nodes that nobody saw before, in the order of leaving them."""
    if root in seen:
        return []
    seen.add(root)
    ended: list[str] = []
    stack = [(root, iter(targets[root]))]
    while stack:
        key, rest = stack[-1]
        fresh = next((to for to in rest if to not in seen), None)
        if fresh is None:
            stack.pop()
            ended.append(key)
        else:
            seen.add(fresh)
            stack.append((fresh, iter(targets[fresh])))
    return ended
