"""`parallel`: the same input to several services."""

from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.engine.fan_out import Fan
from headway.core.flow.engine.fields import PARALLEL_COUNT_MAX
from headway.core.flow.engine.state import Frame


class Parallel(Fan):
    short = "pl"

    def check(self, node: Node, place: str, report: Report) -> None:
        if "" in node.parallel_services:
            report.fault(member(place, "parallel_services"), "must not have an empty name")
        if node.parallel_services:
            return
        services_place = member(member(place, "params"), "services")
        if "services" not in node.params:
            report.warn(services_place, "is missing: the run's parameters must have it")
        elif not _are_services(node.params["services"]):
            report.fault(services_place, _WANTED)

    def restore(self, frame: Frame) -> None:
        services = frame.node.parallel_services or frame.merged.get("services")
        if services is None or services == []:
            raise ValueError("no services")
        if not isinstance(services, tuple) and not _are_services(services):
            raise ValueError(f"services {_WANTED}")
        frame.services = tuple(services)
        frame.branch_count = len(services)


_WANTED: Final = f"must be a list of 1 to {PARALLEL_COUNT_MAX:,} names"


def _are_services(value: Any) -> bool:
    is_list = isinstance(value, list) and 0 < len(value) <= PARALLEL_COUNT_MAX
    return is_list and all(isinstance(name, str) and name for name in value)
