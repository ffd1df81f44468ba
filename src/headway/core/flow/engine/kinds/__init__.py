"""The kinds of nodes: a file each, and this table. To add a kind is to add both."""

from collections.abc import Mapping
from typing import Final

from headway.core.flow.definition.definition import Kind
from headway.core.flow.engine.kinds.approval import ApprovalHandler
from headway.core.flow.engine.kinds.choice import ChoiceHandler
from headway.core.flow.engine.kinds.executor import ExecutorHandler
from headway.core.flow.engine.kinds.fail import FailHandler
from headway.core.flow.engine.kinds.flow_ref import FlowRefHandler
from headway.core.flow.engine.kinds.foreach import ForeachHandler
from headway.core.flow.engine.kinds.local import LocalHandler
from headway.core.flow.engine.kinds.parallel import ParallelHandler
from headway.core.flow.engine.kinds.subflow import SubflowHandler
from headway.core.flow.engine.kinds.timer import TimerHandler
from headway.core.flow.engine.kinds.wait_event import WaitEventHandler
from headway.core.flow.engine.node_handler import NodeHandler

HANDLERS: Final[Mapping[Kind, NodeHandler]] = {
    Kind.EXECUTOR: ExecutorHandler(),
    Kind.LOCAL: LocalHandler(),
    Kind.FLOW_REF: FlowRefHandler(),
    Kind.CHOICE: ChoiceHandler(),
    Kind.PARALLEL: ParallelHandler(),
    Kind.FOREACH: ForeachHandler(),
    Kind.SUBFLOW: SubflowHandler(),
    Kind.TIMER: TimerHandler(),
    Kind.WAIT_EVENT: WaitEventHandler(),
    Kind.APPROVAL: ApprovalHandler(),
    Kind.FAIL: FailHandler(),
}
