"""Waiting for a signal: the common part of `wait_event` and `approval`.

A signal sets a key of the run's own shared state. So the value of an early signal is already there
when the run reaches the node that waits for it. A node within a subflow reads the subflow's shared
state first, then the run's.
"""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Diagnostics, join_path
from headway.core.flow.definition.paths import BadPath, Path, PathScope, Root, parse_path, resolve
from headway.core.flow.engine.calls import TIMEOUT
from headway.core.flow.engine.node_handler import NodeHandler, check_delay_ms, read_delay_ms
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, StepContext
from headway.core.ids import Instant

CONSUME: Final = "consume"
"""The parameter that makes the node remove the awaited key when its value has arrived.

Then a loop can wait for the key again.
"""


class WaitHandler(NodeHandler):
    key_param: str
    """The parameter that contains the path of the awaited value."""

    def has_arrived(self, value: Any) -> bool:
        raise NotImplementedError

    def complete(self, context: StepContext, frame: Frame, value: Any) -> None:
        """Finish the node with the awaited value."""
        context.succeed(frame, value)

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        params_path = join_path(path, "params")
        check_delay_ms(node, "timeout_ms", path, diagnostics)
        if self.key_param not in node.params:
            problem = "is missing; set it, or pass it with the parameters of every task"
            diagnostics.add_warning(join_path(params_path, self.key_param), problem)
            return
        try:
            awaited = self._awaited_path(node.params)
        except ValueError as error:
            diagnostics.add_error(join_path(params_path, self.key_param), str(error))
            return
        if (
            awaited.root is not Root.SHARED
            and not node.timeout_ms
            and not node.params.get("timeout_ms")
        ):
            problem = (
                "is not in the shared state, which signals set, so the node may wait forever;"
                " set timeout_ms"
            )
            diagnostics.add_warning(join_path(params_path, self.key_param), problem)
        self.check_path(awaited, join_path(params_path, self.key_param), diagnostics)
        if node.params.get(CONSUME) and awaited.exact_key is None:
            problem = f"needs {self.key_param} to be exactly one key of the shared state"
            diagnostics.add_error(join_path(params_path, CONSUME), problem)

    def check_path(self, awaited: Path, path: str, diagnostics: Diagnostics) -> None:
        """Report problems of the path that are specific to the kind."""

    def enter(self, context: StepContext, frame: Frame) -> None:
        try:
            awaited = self._awaited_path(frame.merged_params)
            timeout_ms = read_delay_ms(frame.merged_params, "timeout_ms") or frame.node.timeout_ms
        except ValueError as error:
            context.fail_try(frame, str(error), is_final=True)
            return
        if timeout_ms:
            frame.ends_at = Instant(context.now + round(timeout_ms * MILLISECOND))
        self._try_complete(context, frame, awaited)

    def handle_wake(self, context: StepContext, frame: Frame) -> None:
        is_over = self.handle_signal(context, frame)
        if not is_over and frame.ends_at is not None and frame.ends_at <= context.now:
            context.fail_try(frame, TIMEOUT)

    def handle_signal(self, context: StepContext, frame: Frame) -> bool:
        """React to a change of the shared state. Return True if the node is now done.

        The deadline is ignored here: the awaited value may be among the next signals.
        """
        return self._try_complete(context, frame, self._awaited_path(frame.merged_params))

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {"start": frame.entered_at // MILLISECOND}

    def _awaited_path(self, params: Any) -> Path:
        text = params.get(self.key_param)
        if not isinstance(text, str):
            raise ValueError(f"no {self.key_param}")  # noqa: TRY004 - The message is the node's error.
        try:
            return parse_path(text)
        except BadPath as error:
            raise ValueError(f"{self.key_param}: {error}") from None

    def _try_complete(self, context: StepContext, frame: Frame, awaited: Path) -> bool:
        """Finish the node if the awaited value has arrived. Return True if it has arrived."""
        for holder in (frame, context.state.frames[0]):
            value = resolve(awaited, PathScope(frame.merged_params, holder.shared, frame.input))
            if self.has_arrived(value):
                key = awaited.exact_key
                if frame.merged_params.get(CONSUME) and key is not None:
                    context.remove_shared(holder, key)
                self.complete(context, frame, value)
                return True
        return False
