"""The common part of `parallel` and `foreach`, which differ only in their branches."""

from collections.abc import Mapping
from typing import Any, Final

from headway.core.document import BYTE_COUNT_MAX, byte_count
from headway.core.flow.definition.definition import FailureStrategy
from headway.core.flow.engine.calls import CallHandler
from headway.core.flow.engine.inputs import WorkerRef
from headway.core.flow.engine.records import encode_json
from headway.core.flow.engine.state import Branch, Frame, NodeRunStatus
from headway.core.flow.engine.step_context import Failure, StepContext, choose_action

TOO_LARGE: Final = f"too_large: the results of its branches are more than {BYTE_COUNT_MAX:,} bytes"


class FanOutHandler(CallHandler):
    """Records each finished branch as a node run. Collects the results after the last branch."""

    def handle_no_branches(self, context: StepContext, frame: Frame) -> None:
        context.succeed(frame, self._collect_results(frame))

    def finish_branch(
        self,
        context: StepContext,
        frame: Frame,
        branch: Branch,
        *,
        output: Any,
        error: str,
        worker: WorkerRef | None,
    ) -> None:
        status = NodeRunStatus.ERROR if error else NodeRunStatus.OK
        context.record(frame, status, output=output, error=error, branch=branch, worker=worker)
        frame.result_byte_count += branch_byte_count(output, error)
        if frame.result_byte_count > BYTE_COUNT_MAX:
            context.cancel_calls()
            context.fail(frame, TOO_LARGE)
            return
        is_stopped = frame.is_stopped
        if is_stopped:
            # Wait for calls in flight: their results may exist already (R5.12).
            self.abandon_waiting_calls(context, frame)
        else:
            self.launch_branches(context, frame)
        if frame.open_branches:
            return
        if is_stopped:
            self._finish_after_failure(context, frame)
        else:
            context.succeed(frame, self._collect_results(frame))

    def _finish_after_failure(self, context: StepContext, frame: Frame) -> None:
        """Save the successful results although a branch failed, and follow the node's action.

        The action is the one that `on_error` names for the first error. If it names none, the
        action is `error` under `ErrorPolicy.FAIL`, else the node's ordinary action. The node run of
        the last branch records the action.
        """
        first_error = next(iter(frame.errors.values()))
        action = context.save_error(frame, first_error)
        output = self._collect_results(frame)
        context.save_output(frame, output)
        if not frame.flow.fails_on_error:
            action = frame.node.action_for(first_error) or choose_action(frame, output)
        context.result.rows[-1] = context.result.rows[-1]._replace(action=action)
        context.follow(frame, action, failure=Failure(first_error, context.path_of(frame)))

    def _collect_results(self, frame: Frame) -> Any:
        """Return the results in the order of the branches, not in the order of completion."""
        if frame.node.failure_strategy is not FailureStrategy.COLLECT_ERRORS:
            return [frame.results[index] for index in sorted(frame.results)]
        return {
            "results": [frame.results.get(index) for index in range(frame.branch_count)],
            "errors": _by_branch_name(frame, frame.errors),
        }

    def run_state(self, frame: Frame) -> Mapping[str, Any]:
        node = frame.node
        return {
            "done": _by_branch_name(frame, frame.results),
            "errs": _by_branch_name(frame, frame.errors),
            "mode": node.parallel_mode.value,
            "max": node.max_parallel,
            "strategy": node.failure_strategy.value,
        }


def branch_byte_count(output: Any, error: str) -> int:
    """Return how many bytes a branch adds to the result of its node, including a comma."""
    return (byte_count(error) if error else byte_count(encode_json(output))) + 1


def _by_branch_name(frame: Frame, by_index: Mapping[int, Any]) -> dict[str, Any]:
    return {_branch_name(frame, index): by_index[index] for index in sorted(by_index)}


def _branch_name(frame: Frame, index: int) -> str:
    """Return the name of a branch: its service, or its index if branches have no services.

    A service that is used several times gets a number from its second use on, such as `a#2`.
    """
    if not frame.services:
        return str(index)
    service = frame.services[index]
    earlier_count = frame.services[:index].count(service)
    return f"{service}#{earlier_count + 1}" if earlier_count else service
