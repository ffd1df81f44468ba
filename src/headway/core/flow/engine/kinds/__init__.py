"""The kinds of nodes: a file each, and this table. To add a kind is to add both."""

from collections.abc import Mapping
from typing import Final

from headway.core.flow.definition.definition import Kind
from headway.core.flow.engine.kinds.approval import Approval
from headway.core.flow.engine.kinds.choice import Choice
from headway.core.flow.engine.kinds.executor import Executor
from headway.core.flow.engine.kinds.fail import Fail
from headway.core.flow.engine.kinds.flow_ref import FlowRef
from headway.core.flow.engine.kinds.foreach import Foreach
from headway.core.flow.engine.kinds.local import Local
from headway.core.flow.engine.kinds.parallel import Parallel
from headway.core.flow.engine.kinds.subflow import Subflow
from headway.core.flow.engine.kinds.timer import Timer
from headway.core.flow.engine.kinds.wait_event import WaitEvent
from headway.core.flow.engine.node_handler import Rules

KINDS: Final[Mapping[Kind, Rules]] = {
    Kind.EXECUTOR: Executor(),
    Kind.LOCAL: Local(),
    Kind.FLOW_REF: FlowRef(),
    Kind.CHOICE: Choice(),
    Kind.PARALLEL: Parallel(),
    Kind.FOREACH: Foreach(),
    Kind.SUBFLOW: Subflow(),
    Kind.TIMER: Timer(),
    Kind.WAIT_EVENT: WaitEvent(),
    Kind.APPROVAL: Approval(),
    Kind.FAIL: Fail(),
}
