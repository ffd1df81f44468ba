"""Waiting for a signal: what an event and an approval have in common.

A signal sets a key of the run's own shared state. One that came early is therefore there when its
node is reached. What a subflow's own shared state does not have is looked for in the run's.
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
"""Whether the key is removed when its value has come, so that a loop can wait for the next."""


class WaitHandler(NodeHandler):
    key_param: str
    """The parameter that holds the path of what is waited for."""

    def has_arrived(self, value: Any) -> bool:
        raise NotImplementedError

    def complete(self, walk: StepContext, frame: Frame, value: Any) -> None:
        """It has come: the node is done."""
        walk.succeed(frame, value)

    def check(self, node: Node, place: str, report: Diagnostics) -> None:
        params_place = join_path(place, "params")
        check_delay_ms(node, "timeout_ms", place, report)
        if self.key_param not in node.params:
            problem = "is missing: the run's parameters must have it"
            report.add_warning(join_path(params_place, self.key_param), problem)
            return
        try:
            path = self._awaited_path(node.params)
        except ValueError as error:
            report.add_error(join_path(params_place, self.key_param), str(error))
            return
        if (
            path.root is not Root.SHARED
            and not node.timeout_ms
            and not node.params.get("timeout_ms")
        ):
            problem = "does not point at the shared state: without a timeout it may wait for ever"
            report.add_warning(join_path(params_place, self.key_param), problem)
        self.check_path(path, join_path(params_place, self.key_param), report)
        if node.params.get(CONSUME) and path.exact_key is None:
            problem = f"needs a {self.key_param} that is a key of the shared state, without more"
            report.add_error(join_path(params_place, CONSUME), problem)

    def check_path(self, path: Path, place: str, report: Diagnostics) -> None:
        """Report what of the path does not suit the kind."""

    def enter(self, walk: StepContext, frame: Frame) -> None:
        try:
            path = self._awaited_path(frame.merged_params)
            timeout_ms = read_delay_ms(frame.merged_params, "timeout_ms") or frame.node.timeout_ms
        except ValueError as error:
            walk.fail_try(frame, str(error), is_final=True)
            return
        if timeout_ms:
            frame.ends_at = Instant(walk.now + round(timeout_ms * MILLISECOND))
        self._try_complete(walk, frame, path)

    def handle_wake(self, walk: StepContext, frame: Frame) -> None:
        is_over = self.handle_signal(walk, frame)
        if not is_over and frame.ends_at is not None and frame.ends_at <= walk.now:
            walk.fail_try(frame, TIMEOUT)

    def handle_signal(self, walk: StepContext, frame: Frame) -> bool:
        """The shared state has changed. Whether that was it, and the node is done.

        Whatever the time: what is waited for may be among the next signals.
        """
        return self._try_complete(walk, frame, self._awaited_path(frame.merged_params))

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {"start": frame.entered_at // MILLISECOND}

    def _awaited_path(self, params: Any) -> Path:
        text = params.get(self.key_param)
        if not isinstance(text, str):
            raise ValueError(f"no {self.key_param}")  # noqa: TRY004 - It is the node's error text.
        try:
            return parse_path(text)
        except BadPath as error:
            raise ValueError(f"{self.key_param}: {error}") from None

    def _try_complete(self, walk: StepContext, frame: Frame, path: Path) -> bool:
        """Whether it has come, and the node is done."""
        for holder in (frame, walk.state.frames[0]):
            value = resolve(path, PathScope(frame.merged_params, holder.shared, frame.input))
            if self.has_arrived(value):
                key = path.exact_key
                if frame.merged_params.get(CONSUME) and key is not None:
                    walk.remove_shared(holder, key)
                self.complete(walk, frame, value)
                return True
        return False
