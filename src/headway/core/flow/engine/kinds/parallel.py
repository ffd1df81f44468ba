"""The kind `parallel`: call several services with the same input."""

from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.engine.fan_out import FanOutHandler
from headway.core.flow.engine.fields import PARALLEL_COUNT_MAX
from headway.core.flow.engine.state import Frame


class ParallelHandler(FanOutHandler):
    state_prefix = "pl"

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        if "" in node.parallel_services:
            diagnostics.add_error(
                join_path(path, "parallel_services"), "must not contain an empty name"
            )
        if node.parallel_services:
            return
        services_path = join_path(join_path(path, "params"), "services")
        if "services" not in node.params:
            diagnostics.add_warning(
                services_path, "is missing; set it, or pass it with the parameters of every task"
            )
        elif not _are_services(node.params["services"]):
            diagnostics.add_error(services_path, _SERVICES_PROBLEM)

    def resolve_branches(self, frame: Frame) -> None:
        services = frame.node.parallel_services or frame.merged_params.get("services")
        if services is None or services == []:
            raise ValueError("no services")
        if not isinstance(services, tuple) and not _are_services(services):
            raise ValueError(f"services {_SERVICES_PROBLEM}")
        frame.services = tuple(services)
        frame.branch_count = len(services)


_SERVICES_PROBLEM: Final = f"must be a list of 1 to {PARALLEL_COUNT_MAX:,} names"


def _are_services(value: Any) -> bool:
    is_list = isinstance(value, list) and 0 < len(value) <= PARALLEL_COUNT_MAX
    return is_list and all(isinstance(name, str) and name for name in value)
