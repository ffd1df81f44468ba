"""Nodes that make calls: a single call, or a call in each of many branches.

A branch is tried at most `1 + max_retries` times. Within a try, up to `max_attempts` workers are
called one after the other. If `max_attempts` is 0, every live worker may be called. Each finished
try is a node run, so that after a crash the node runs show which branches are done and which try is
next.

If a worker fails, the next one is called. A worker has failed if it reported an error, if its
response is invalid, or if the connection was lost during the call. After a lost connection the work
may have been done, and the next worker does it again: calls are made at least once.
"""

from heapq import heappop, heappush
from typing import Any, Final

from headway.core.flow.definition.definition import Kind, Node, ParallelMode
from headway.core.flow.definition.diagnostics import Diagnostics
from headway.core.flow.engine.effects import (
    CallFlow,
    CallFunction,
    CallService,
    Effect,
)
from headway.core.flow.engine.inputs import Answered, CalleeUnavailable, Failed, WorkerRef
from headway.core.flow.engine.node_handler import NodeHandler, require_text
from headway.core.flow.engine.state import Branch, Frame, NodeRunStatus
from headway.core.flow.engine.step_context import MILLISECOND, StepContext, has_prep
from headway.core.ids import SECOND_US, Instant

TIMEOUT: Final = "timeout"
UNSPECIFIED_ERROR: Final = "failed"
"""The error text of a failure that came without a text."""
ERROR_LENGTH_MAX: Final = 4_000
ANOTHER_FAILED: Final = "another branch failed"
WORKER_COUNT_MAX: Final = 1_000
"""The maximum number of workers called within a try if `max_attempts` is not set."""
OPEN_COUNT_DEFAULT: Final = 100
"""How many branches of a concurrent node may be open if `max_parallel` is not set."""
RETRY_PAUSE_US_MIN: Final = SECOND_US
"""The shortest pause before a call that found no callee is tried again."""
RETRY_PAUSE_US_MAX: Final = 10 * SECOND_US
"""The longest pause before a call that found no callee is tried again."""


class CallHandler(NodeHandler):
    """The base class for kinds of nodes that make calls. Each kind defines its branches."""

    def resolve_branches(self, frame: Frame) -> None:
        """Derive the branches from the node and its input. Raise ValueError if one is invalid."""
        raise NotImplementedError

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
        """Record the final outcome of a branch, and continue the node."""
        raise NotImplementedError

    def enter(self, context: StepContext, frame: Frame) -> None:
        try:
            self.resolve_branches(frame)
        except ValueError as error:
            context.fail_try(frame, str(error), is_final=True)
            return
        if frame.branch_count:
            self.launch_branches(context, frame)
        else:
            self.handle_no_branches(context, frame)

    def handle_no_branches(self, context: StepContext, frame: Frame) -> None:
        raise NotImplementedError

    def handle_wake(self, context: StepContext, frame: Frame) -> None:
        """Make the calls that are due, and abandon calls that are past their deadline."""
        # When the node ends, `frame.alarms` is replaced, which stops the loop.
        alarms = frame.alarms
        while alarms and alarms[0][0] <= context.now and frame.alarms is alarms:
            at, index = heappop(alarms)
            branch = frame.open_branches.get(index)
            if branch is None or branch.alarm_at != at:
                continue
            if branch.deadline_at is not None and branch.deadline_at <= context.now:
                context.cancel_call(frame, branch)
                if branch.is_issued:
                    self._end_wait(context, frame, frame.service_of(branch))
                self._fail_branch_try(context, frame, branch, TIMEOUT)
            else:
                self._call(context, frame, branch)

    def launch_branches(self, context: StepContext, frame: Frame) -> None:
        """Start more branches, up to the limit of branches that may be open at once."""
        limit = open_count_max(frame.node)
        while frame.launched_count < frame.branch_count and len(frame.open_branches) < limit:
            index = frame.launched_count
            frame.launched_count += 1
            branch = Branch(index, make_call_id(frame, index, try_no=1, attempt=1))
            frame.open_branches[index] = branch
            self._call(context, frame, branch)

    # Outcomes of calls.

    def handle_answer(self, context: StepContext, frame: Frame, answer: Answered) -> bool:
        """Apply the result of a call. Return False if no branch waits for that call."""
        branch = find_branch(frame, answer.call_id)
        if branch is None:
            return False
        del frame.open_branches[branch.index]
        self._end_wait(context, frame, frame.service_of(branch))
        frame.results[branch.index] = answer.result
        self.finish_branch(
            context, frame, branch, output=answer.result, error="", worker=answer.worker
        )
        return True

    def handle_failure(
        self, context: StepContext, frame: Frame, failure: Failed, *, is_unavailable: bool = False
    ) -> bool:
        """Apply the failure of a call. Return False if no branch waits for that call.

        `is_unavailable` means that no worker has begun the call.
        """
        branch = find_branch(frame, failure.call_id)
        if branch is None:
            return False
        node = frame.node
        error, worker = failure.error[:ERROR_LENGTH_MAX] or UNSPECIFIED_ERROR, failure.worker
        if worker is not None and not is_unavailable:
            self._end_wait(context, frame, frame.service_of(branch))
        is_last = failure.is_final or failure.is_last_worker or is_unavailable or frame.is_stopped
        if worker is None and branch.error:
            # The last worker's error is more useful than the error that no worker is left.
            error, worker = branch.error, branch.worker
        elif worker is not None and not is_last and _may_try_another_worker(node, branch):
            branch.excluded = (*branch.excluded, worker.id)
            branch.error, branch.worker = error, worker
            branch.attempt += 1
            frame.has_tried_another_worker = True
            self._schedule_call(context, frame, branch, node.attempt_delay_ms)
            return True
        self._fail_branch_try(
            context, frame, branch, error, worker=worker, is_final=failure.is_final
        )
        return True

    def handle_unavailable(
        self, context: StepContext, frame: Frame, call: CalleeUnavailable
    ) -> bool:
        """Postpone or fail a call that found no callee. Return False if no branch waits for it.

        A call to a service waits for a worker. A call to a function is made again after a pause of
        about the time that it has waited so far, while the time limit of its try keeps running.
        """
        branch = find_branch(frame, call.call_id)
        if branch is None:
            return False
        if not frame.node.function:
            return self._await_worker(context, frame, branch, call)
        if branch.started_at is None:
            return False
        if frame.is_stopped:
            self._fail_branch_try(context, frame, branch, call.error, is_final=True)
            return True
        self._pause_call(
            frame, branch, Instant(context.now + retry_pause_us(context.now - branch.started_at))
        )
        return True

    def handle_offer(self, context: StepContext, frame: Frame, service: str) -> bool:
        """Make the calls that wait for this service. Return False if there are none."""
        waiting = [
            branch for branch in frame.open_branches.values() if branch.awaited_service == service
        ]
        for branch in waiting:
            self._call(context, frame, branch)
        if waiting:
            self._end_wait(context, frame, service)
        return bool(waiting)

    def _end_wait(self, context: StepContext, frame: Frame, service: str) -> None:
        """Restart the time limit of waits for a service, because the service has a worker.

        If other calls still wait for the service, their wait begins again now.
        """
        if service not in frame.missing_since:
            return
        if any(
            branch.is_awaiting_callee and frame.service_of(branch) == service
            for branch in frame.open_branches.values()
        ):
            frame.missing_since[service] = context.now
        else:
            del frame.missing_since[service]

    def _await_worker(
        self, context: StepContext, frame: Frame, branch: Branch, call: CalleeUnavailable
    ) -> bool:
        """Let a call wait for a worker if the policy and the time allow it, else fail the call.

        If no live worker offers the service, the call waits until one registers. If a worker is
        registered but cannot be reached, it is called again after a pause, until the wait ends. The
        wait has its own time limit. The time limit of the try begins when a worker accepts the
        call.
        """
        flow = frame.flow
        may_wait = flow.fails_on_error and flow.worker_wait_ms and not frame.is_stopped
        failure = Failed(call.call_id, call.error, call.worker)
        if not may_wait or branch.excluded:
            return self.handle_failure(context, frame, failure, is_unavailable=True)
        service = frame.service_of(branch)
        since = frame.missing_since.setdefault(service, context.now)
        until = Instant(since + flow.worker_wait_ms * MILLISECOND)
        if context.now >= until:
            branch.started_at = since
            if call.worker is None:
                detail = f"none offered {service!r} within {flow.worker_wait_ms / 1_000:g} s"
                failure = failure._replace(error=f"{call.error}: {detail}")
            return self.handle_failure(context, frame, failure, is_unavailable=True)
        branch.started_at = branch.deadline_at = None
        if call.worker is None:
            branch.awaited_service = service
            self._pause_call(frame, branch, until)
        else:
            again_at = Instant(context.now + retry_pause_us(context.now - since))
            self._pause_call(frame, branch, min(again_at, until))
        return True

    def _pause_call(self, frame: Frame, branch: Branch, until: Instant) -> None:
        branch.is_awaiting_callee = True
        branch.is_issued = False
        branch.call_at = until
        self.set_alarm(frame, branch)

    def _fail_branch_try(
        self,
        context: StepContext,
        frame: Frame,
        branch: Branch,
        error: str,
        *,
        worker: WorkerRef | None = None,
        is_final: bool = False,
    ) -> None:
        """Fail this try of the branch, and schedule the next try if a retry is left."""
        node = frame.node
        if branch.try_no > node.max_retries or is_final or frame.is_stopped:
            del frame.open_branches[branch.index]
            frame.errors[branch.index] = error
            self.finish_branch(context, frame, branch, output=None, error=error, worker=worker)
            return
        context.record(
            frame, NodeRunStatus.ERROR, error=error, branch=branch, worker=worker, is_settled=False
        )
        branch.try_no += 1
        branch.attempt = 1
        branch.excluded = ()
        branch.error, branch.worker = "", None
        branch.started_at = branch.deadline_at = None
        branch.is_awaiting_callee = False
        branch.awaited_service = ""
        self._schedule_call(context, frame, branch, node.wait_ms)

    def abandon_waiting_calls(self, context: StepContext, frame: Frame) -> None:
        """Cancel the branches that wait to be called again.

        After a crash, a call that is due at once may already be in flight, so it is not abandoned.
        """
        for branch in list(frame.open_branches.values()):
            is_unissued = not branch.is_issued
            if branch.call_at is not None and (is_unissued or branch.call_at >= context.now):
                del frame.open_branches[branch.index]
                context.record(frame, NodeRunStatus.CANCELED, error=ANOTHER_FAILED, branch=branch)
                frame.errors[branch.index] = ANOTHER_FAILED

    # Calls to make.

    def _schedule_call(
        self, context: StepContext, frame: Frame, branch: Branch, delay_ms: int
    ) -> None:
        branch.call_id = make_call_id(
            frame, branch.index, try_no=branch.try_no, attempt=branch.attempt
        )
        if delay_ms:
            branch.is_issued = False
            branch.call_at = Instant(context.now + delay_ms * MILLISECOND)
            self.set_alarm(frame, branch)
        else:
            self._call(context, frame, branch)

    def _call(self, context: StepContext, frame: Frame, branch: Branch) -> None:
        branch.call_at = None
        branch.is_issued = True
        branch.is_awaiting_callee = False
        branch.awaited_service = ""
        if branch.started_at is None:
            branch.started_at = context.now
            timeout_ms = frame.node.timeout_ms
            if timeout_ms:
                branch.deadline_at = Instant(context.now + timeout_ms * MILLISECOND)
        self.set_alarm(frame, branch)
        context.result.effects.append(self._build_effect(frame, branch))

    def set_alarm(self, frame: Frame, branch: Branch) -> None:
        alarm_at = branch.alarm_at
        if alarm_at is not None:
            heappush(frame.alarms, (alarm_at, branch.index))

    def _build_effect(self, frame: Frame, branch: Branch) -> Effect:
        node = frame.node
        call_input = frame.input_of(branch)
        if node.flow:
            has_input = node.kind is Kind.FOREACH or has_prep(node)
            params = (
                {**frame.merged_params, "input": call_input} if has_input else frame.merged_params
            )
            return CallFlow(branch.call_id, node.flow, node.version, params)
        if node.function:
            return CallFunction(
                branch.call_id,
                node.function,
                call_input,
                frame.merged_params,
                branch.try_no,
                branch.deadline_at,
            )
        return CallService(
            branch.call_id,
            frame.service_of(branch),
            call_input,
            frame.merged_params,
            branch.try_no,
            branch.attempt,
            branch.excluded,
            node.weighted_by_load,
            branch.deadline_at,
            _may_try_another_worker(node, branch),
        )


class SingleCallHandler(CallHandler):
    """The handler of a node that makes one call. The result of the call is the node's result."""

    def __init__(self, callee_field: str) -> None:
        """Create the handler. `callee_field` is the field in which a node names its callee."""
        self._callee_field = callee_field

    def check(self, node: Node, path: str, diagnostics: Diagnostics) -> None:
        require_text(node, self._callee_field, path, diagnostics)

    def resolve_branches(self, frame: Frame) -> None:
        frame.branch_count = 1

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
        if error:
            context.fail(frame, error, branch=branch, worker=worker)
        else:
            context.succeed(frame, output, branch=branch, worker=worker)


def _may_try_another_worker(node: Node, branch: Branch) -> bool:
    return branch.attempt < (node.max_attempts or WORKER_COUNT_MAX)


def retry_pause_us(waited_us: int) -> int:
    """Return the pause before a call that found no callee is tried again.

    The pause is the time that the call has waited so far, within limits.
    """
    return min(max(waited_us, RETRY_PAUSE_US_MIN), RETRY_PAUSE_US_MAX)


def open_count_max(node: Node) -> int:
    if node.parallel_mode is ParallelMode.SEQUENTIAL:
        return 1
    return node.max_parallel or OPEN_COUNT_DEFAULT


def make_call_id(frame: Frame, index: int, *, try_no: int, attempt: int) -> str:
    """Return the id of a call. It is the same if the call is repeated after a crash.

    Calls of different visits, branches, tries or attempts have different ids.
    """
    return f"{frame.entered_row_count}.{index}.{try_no}.{attempt}"


def find_branch(frame: Frame, call_id: str) -> Branch | None:
    """Return the branch that waits for this call, or None. `call_id` may be any text."""
    parts = call_id.split(".", 2)
    is_index = len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 10
    branch = frame.open_branches.get(int(parts[1])) if is_index else None
    return branch if branch is not None and branch.call_id == call_id else None
