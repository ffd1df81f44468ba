"""The kind `fail`: fail the task with a message and a code from the definition."""

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
    """Ends the whole task, also from within a subflow. A `fail` node has no edges."""

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        params_path = join_path(path, "params")
        message, code = node.params.get(MESSAGE), node.params.get(CODE, "")
        if not isinstance(message, str) or not message:
            diagnostics.add_error(
                join_path(params_path, MESSAGE), "must be text, or a path to text"
            )
        elif is_reference(message):
            try:
                parse_path(message)
            except BadPath as error:
                diagnostics.add_error(join_path(params_path, MESSAGE), str(error))
        if not isinstance(code, str) or len(code) > NAME_LENGTH_MAX:
            problem = f"must be text of at most {NAME_LENGTH_MAX} characters"
            diagnostics.add_error(join_path(params_path, CODE), problem)
        if node.edges:
            diagnostics.add_warning(
                path, "ends the task, so its edges are never followed; remove them"
            )

    def enter(self, context: StepContext, frame: Frame) -> None:
        # Only the node's own parameters count: a task may use `message` for something else.
        params = frame.node.params
        scope = PathScope(frame.merged_params, frame.shared, frame.input)
        error = _resolve_message(params[MESSAGE], scope)
        path = context.path_of(frame)
        context.record(frame, NodeRunStatus.ERROR, error=error)
        context.finish(RunStatus.FAILED, error)
        context.state.error_code = params.get(CODE, "")
        context.state.failed_path = path


def _resolve_message(message: str, scope: PathScope) -> str:
    value: Any = resolve(parse_path(message), scope) if is_reference(message) else message
    if value is None or value == "":
        return UNSPECIFIED_ERROR
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:ERROR_LENGTH_MAX]
