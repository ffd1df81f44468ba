"""The kinds of nodes and their handlers.

To add a kind, add it to `Kind`, write a handler class, usually in its own file here, and add an
entry to `HANDLERS`. `tests/core/flow/test_kinds.py` then fails for everything else that needs the
kind.
"""

from collections.abc import Mapping
from typing import Final

from headway.core.flow.definition.definition import Kind
from headway.core.flow.engine.calls import SingleCallHandler
from headway.core.flow.engine.kinds.approval import ApprovalHandler
from headway.core.flow.engine.kinds.choice import ChoiceHandler
from headway.core.flow.engine.kinds.fail import FailHandler
from headway.core.flow.engine.kinds.foreach import ForeachHandler
from headway.core.flow.engine.kinds.parallel import ParallelHandler
from headway.core.flow.engine.kinds.subflow import SubflowHandler
from headway.core.flow.engine.kinds.timer import TimerHandler
from headway.core.flow.engine.kinds.wait_event import WaitEventHandler
from headway.core.flow.engine.node_handler import NodeHandler

HANDLERS: Final[Mapping[Kind, NodeHandler]] = {
    Kind.EXECUTOR: SingleCallHandler("service"),
    Kind.LOCAL: SingleCallHandler("function"),
    Kind.FLOW_REF: SingleCallHandler("flow"),
    Kind.CHOICE: ChoiceHandler(),
    Kind.PARALLEL: ParallelHandler(),
    Kind.FOREACH: ForeachHandler(),
    Kind.SUBFLOW: SubflowHandler(),
    Kind.TIMER: TimerHandler(),
    Kind.WAIT_EVENT: WaitEventHandler(),
    Kind.APPROVAL: ApprovalHandler(),
    Kind.FAIL: FailHandler(),
}
"""The handler of each kind.

`executor` calls a service that a worker offers. `local` calls a Python function that is registered
in the process that drives the task. `flow_ref` runs another published flow as a child, whose final
shared state is the result.
"""
