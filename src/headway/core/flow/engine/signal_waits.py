"""Waiting for a signal: what an event and an approval have in common.

A signal sets a key of the run's own shared state. One that came early is therefore there when its
node is reached. What a subflow's own shared state does not have is looked for in the run's.
"""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.flow.definition.definition import Node
from headway.core.flow.definition.diagnostics import Report, member
from headway.core.flow.definition.paths import BadPath, Path, Root, Scope, parse_path, resolve
from headway.core.flow.engine.calls import TIMEOUT
from headway.core.flow.engine.node_handler import Rules, check_delay_ms, read_delay_ms
from headway.core.flow.engine.state import Frame
from headway.core.flow.engine.step_context import MILLISECOND, Walk
from headway.core.ids import Instant

CONSUME: Final = "consume"
"""Whether the key is removed when its value has come, so that a loop can wait for the next."""


class Wait(Rules):
    key_name: str
    """The parameter that holds the path of what is waited for."""

    def has_come(self, value: Any) -> bool:
        raise NotImplementedError

    def take(self, walk: Walk, frame: Frame, value: Any) -> None:
        """It has come: the node is done."""
        walk.succeed(frame, value)

    def check(self, node: Node, place: str, report: Report) -> None:
        params_place = member(place, "params")
        check_delay_ms(node, "timeout_ms", place, report)
        if self.key_name not in node.params:
            problem = "is missing: the run's parameters must have it"
            report.warn(member(params_place, self.key_name), problem)
            return
        try:
            path = self._path(node.params)
        except ValueError as error:
            report.fault(member(params_place, self.key_name), str(error))
            return
        if (
            path.root is not Root.SHARED
            and not node.timeout_ms
            and not node.params.get("timeout_ms")
        ):
            problem = "does not point at the shared state: without a timeout it may wait for ever"
            report.warn(member(params_place, self.key_name), problem)
        self.check_path(path, member(params_place, self.key_name), report)
        if node.params.get(CONSUME) and path.sole_key is None:
            problem = f"needs a {self.key_name} that is a key of the shared state, without more"
            report.fault(member(params_place, CONSUME), problem)

    def check_path(self, path: Path, place: str, report: Report) -> None:
        """Report what of the path does not suit the kind."""

    def enter(self, walk: Walk, frame: Frame) -> None:
        try:
            path = self._path(frame.merged)
            timeout_ms = read_delay_ms(frame.merged, "timeout_ms") or frame.node.timeout_ms
        except ValueError as error:
            walk.fail_try(frame, str(error), is_final=True)
            return
        if timeout_ms:
            frame.until = Instant(walk.now + round(timeout_ms * MILLISECOND))
        self._take(walk, frame, path)

    def look(self, walk: Walk, frame: Frame) -> None:
        is_over = self.hear(walk, frame)
        if not is_over and frame.until is not None and frame.until <= walk.now:
            walk.fail_try(frame, TIMEOUT)

    def hear(self, walk: Walk, frame: Frame) -> bool:
        """The shared state has changed. Whether that was it, and the node is done.

        Whatever the time: what is waited for may be among the next signals.
        """
        return self._take(walk, frame, self._path(frame.merged))

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        return {"start": frame.entered_at // MILLISECOND}

    def _path(self, params: Any) -> Path:
        text = params.get(self.key_name)
        if not isinstance(text, str):
            raise ValueError(f"no {self.key_name}")  # noqa: TRY004 - It is the node's error text.
        try:
            return parse_path(text)
        except BadPath as error:
            raise ValueError(f"{self.key_name}: {error}") from None

    def _take(self, walk: Walk, frame: Frame, path: Path) -> bool:
        """Whether it has come, and the node is done."""
        for holder in (frame, walk.state.frames[0]):
            value = resolve(path, Scope(frame.merged, holder.shared, frame.input))
            if self.has_come(value):
                key = path.sole_key
                if frame.merged.get(CONSUME) and key is not None:
                    walk.remove_shared(holder, key)
                self.take(walk, frame, value)
                return True
        return False
