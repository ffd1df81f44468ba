"""The node kind `fail` fails the task with a message and a code from the definition."""

import json
from typing import Any, Final

from headway.core.document import NAME_LENGTH_MAX
from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.definition.paths import BadPath, PathScope, is_reference, parse_path, resolve
from headway.core.flow.engine.calls import ERROR_LENGTH_MAX, UNSPECIFIED_ERROR
from headway.core.flow.engine.node_handler import NodeHandler
from headway.core.flow.engine.state import Frame, NodeRunStatus
from headway.core.flow.engine.step_context import StepContext
from headway.core.run.status import RunStatus

MESSAGE: Final = "message"
CODE: Final = "code"


class FailHandler(NodeHandler):
    """It ends the whole task, also from within a subflow. It has no edges."""

    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        params_place = join_path(place, "params")
        message, code = node.params.get(MESSAGE), node.params.get(CODE, "")
        if not isinstance(message, str) or not message:
            report.add_error(join_path(params_place, MESSAGE), "must be a text, or a path to one")
        elif is_reference(message):
            try:
                parse_path(message)
            except BadPath as error:
                report.add_error(join_path(params_place, MESSAGE), str(error))
        if not isinstance(code, str) or len(code) > NAME_LENGTH_MAX:
            problem = f"must be a text of at most {NAME_LENGTH_MAX} characters"
            report.add_error(join_path(params_place, CODE), problem)
        if node.edges:
            report.add_warning(place, "ends the task: the edges that leave it are never followed")

    def enter(self, walk: StepContext, frame: Frame) -> None:
        # Only the node's own parameters: a task may use `message` for something else.
        params = frame.node.params
        scope = PathScope(frame.merged_params, frame.shared, frame.input)
        error = _resolve_message(params[MESSAGE], scope)
        path = walk.path_of(frame)
        walk.record(frame, NodeRunStatus.ERROR, error=error)
        walk.finish(RunStatus.FAILED, error)
        walk.state.error_code = params.get(CODE, "")
        walk.state.failed_path = path


def _resolve_message(given: str, scope: PathScope) -> str:
    found: Any = resolve(parse_path(given), scope) if is_reference(given) else given
    if found is None or found == "":
        return UNSPECIFIED_ERROR
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text[:ERROR_LENGTH_MAX]
