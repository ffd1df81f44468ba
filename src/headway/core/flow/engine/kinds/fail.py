"""The node kind `fail` fails the task with a message and a code from the definition."""

import json
from typing import Any, Final

from headway.core.document import NAME_LENGTH_MAX
from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.definition.paths import BadPath, Scope, is_reference, parse_path, resolve
from headway.core.flow.engine.calls import ERROR_LENGTH_MAX, UNTOLD
from headway.core.flow.engine.node_handler import Rules
from headway.core.flow.engine.state import Frame, NodeRunStatus
from headway.core.flow.engine.step_context import Walk
from headway.core.run.status import RunStatus

MESSAGE: Final = "message"
CODE: Final = "code"


class Fail(Rules):
    """It ends the whole task, also from within a subflow. It has no edges."""

    def check(self, node: Node, place: str, report: Report) -> None:
        params_place = member(place, "params")
        message, code = node.params.get(MESSAGE), node.params.get(CODE, "")
        if not isinstance(message, str) or not message:
            report.fault(member(params_place, MESSAGE), "must be a text, or a path to one")
        elif is_reference(message):
            try:
                parse_path(message)
            except BadPath as error:
                report.fault(member(params_place, MESSAGE), str(error))
        if not isinstance(code, str) or len(code) > NAME_LENGTH_MAX:
            problem = f"must be a text of at most {NAME_LENGTH_MAX} characters"
            report.fault(member(params_place, CODE), problem)
        if node.edges:
            report.warn(place, "ends the task: the edges that leave it are never followed")

    def enter(self, walk: Walk, frame: Frame) -> None:
        # Only the node's own parameters: a task may use `message` for something else.
        params = frame.node.params
        scope = Scope(frame.merged, frame.shared, frame.input)
        error = _message(params[MESSAGE], scope)
        path = walk.path_of(frame)
        walk.record(frame, NodeRunStatus.ERROR, error=error)
        walk.finish(RunStatus.FAILED, error)
        walk.state.error_code = params.get(CODE, "")
        walk.state.failed_path = path


def _message(given: str, scope: Scope) -> str:
    found: Any = resolve(parse_path(given), scope) if is_reference(given) else given
    if found is None or found == "":
        return UNTOLD
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text[:ERROR_LENGTH_MAX]
