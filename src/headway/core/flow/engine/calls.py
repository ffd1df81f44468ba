"""Nodes that make calls: to one callee, or one branch for each of many.

A branch is tried `1 + max_retries` times. Within a try, up to `max_attempts` workers are called, or
every live one if that is 0. Each finished try is a node run, so that after a crash the node runs
show which branches are done and which try is next.

After any failure of a worker the next one is called: an error that it reported, an answer that
could not be read, or a connection that was lost in the middle of the call. In the last case the
worker may have done its work, and the next worker does it again: calls are made at least once.
"""

from heapq import heappop, heappush
from typing import Any, Final

from headway.core.flow.definition.definition import Kind, Mode, Node
from headway.core.flow.engine.effects import (
    CallFunction,
    CallService,
    Command,
    StartChild,
)
from headway.core.flow.engine.inputs import Answered, Failed, Untaken, Worker
from headway.core.flow.engine.node_handler import Rules
from headway.core.flow.engine.state import Branch, Frame, NodeRunStatus
from headway.core.flow.engine.step_context import MILLISECOND, Walk, has_prep
from headway.core.ids import SECOND, Instant

TIMEOUT: Final = "timeout"
UNTOLD: Final = "failed"
"""For a failure that does not say why."""
ERROR_LENGTH_MAX: Final = 4_000
ANOTHER_FAILED: Final = "another branch failed"
ASKED_COUNT_MAX: Final = 1_000
"""How many workers are called at most within a try without `max_attempts`."""
OPEN_COUNT_DEFAULT: Final = 100
"""How many branches are open at once in a concurrent node that does not say."""
UNTAKEN_US_MIN: Final = SECOND
UNTAKEN_US_MAX: Final = 10 * SECOND
"""How long a call that nobody could make rests, at least and at most, until it is tried again."""


class CallRules(Rules):
    """What the kinds that call have in common; each says what its branches are."""

    def restore(self, frame: Frame) -> None:
        """Find the branches in the node and its input. ValueError says why there are none."""
        raise NotImplementedError

    def settle(
        self,
        walk: Walk,
        frame: Frame,
        branch: Branch,
        *,
        output: Any,
        error: str,
        by: Worker | None,
    ) -> None:
        """A branch is decided: record it, and go on."""
        raise NotImplementedError

    def enter(self, walk: Walk, frame: Frame) -> None:
        try:
            self.restore(frame)
        except ValueError as error:
            walk.fail_try(frame, str(error), is_final=True)
            return
        if frame.branch_count:
            self.launch(walk, frame)
        else:
            self.nothing_to_call(walk, frame)

    def nothing_to_call(self, walk: Walk, frame: Frame) -> None:
        raise NotImplementedError

    def look(self, walk: Walk, frame: Frame) -> None:
        """Call what is to be called by now, and give up what has taken too long."""
        alarms = frame.alarms  # The frame has others once the node is over.
        while alarms and alarms[0][0] <= walk.now and frame.alarms is alarms:
            at, index = heappop(alarms)
            branch = frame.open.get(index)
            if branch is None or branch.rings_at != at:
                continue
            if branch.due_at is not None and branch.due_at <= walk.now:
                walk.cancel_call(frame, branch)
                if branch.is_issued:
                    self._end_wait(walk, frame, frame.service_of(branch))
                self._lose(walk, frame, branch, TIMEOUT)
            else:
                self._call(walk, frame, branch)

    def launch(self, walk: Walk, frame: Frame) -> None:
        """Start branches, as many as may be open at once."""
        limit = open_count_max(frame.node)
        while frame.launched < frame.branch_count and len(frame.open) < limit:
            index = frame.launched
            frame.launched += 1
            branch = Branch(index, call_id(frame, index, try_no=1, attempt=1))
            frame.open[index] = branch
            self._call(walk, frame, branch)

    # What comes back.

    def answered(self, walk: Walk, frame: Frame, answer: Answered) -> bool:
        """False when nobody waits for it."""
        branch = branch_of(frame, answer.call_id)
        if branch is None:
            return False
        del frame.open[branch.index]
        self._end_wait(walk, frame, frame.service_of(branch))
        frame.done[branch.index] = answer.result
        self.settle(walk, frame, branch, output=answer.result, error="", by=answer.worker)
        return True

    def failed(
        self, walk: Walk, frame: Frame, failure: Failed, *, is_untaken: bool = False
    ) -> bool:
        """Return False if no call waits for it. `is_untaken` if no worker has begun the call."""
        branch = branch_of(frame, failure.call_id)
        if branch is None:
            return False
        node = frame.node
        error, worker = failure.error[:ERROR_LENGTH_MAX] or UNTOLD, failure.worker
        if worker is not None and not is_untaken:
            self._end_wait(walk, frame, frame.service_of(branch))
        is_last = failure.is_final or failure.is_last or is_untaken or frame.is_stopped
        if worker is None and branch.error:
            # The error of the last worker is more useful than that no other worker is left.
            error, worker = branch.error, branch.worker
        elif worker is not None and not is_last and _may_ask_another(node, branch):
            branch.excluded = (*branch.excluded, worker.id)
            branch.error, branch.worker = error, worker
            branch.attempt += 1
            frame.has_asked_another = True
            self._put_off(walk, frame, branch, node.attempt_delay_ms)
            return True
        self._lose(walk, frame, branch, error, by=worker, is_final=failure.is_final)
        return True

    def untaken(self, walk: Walk, frame: Frame, call: Untaken) -> bool:
        """Put it off, each time for about as long as it has been waited for; its time runs on."""
        branch = branch_of(frame, call.call_id)
        if branch is None:
            return False
        if not frame.node.function:
            return self._await_worker(walk, frame, branch, call)
        if branch.started_at is None:
            return False
        if frame.is_stopped:
            self._lose(walk, frame, branch, call.error, is_final=True)
            return True
        self._rest(frame, branch, Instant(walk.now + rest_us(walk.now - branch.started_at)))
        return True

    def offered(self, walk: Walk, frame: Frame, service: str) -> bool:
        """Make the calls that wait for this service. Return False if there are none."""
        waiting = [one for one in frame.open.values() if one.awaited_service == service]
        for branch in waiting:
            self._call(walk, frame, branch)
        if waiting:
            self._end_wait(walk, frame, service)
        return bool(waiting)

    def _end_wait(self, walk: Walk, frame: Frame, service: str) -> None:
        """Let the next wait for the service have its whole time, as it has a worker.

        If other calls still rest, their wait begins again now.
        """
        if service not in frame.missing_since:
            return
        if any(one.is_untaken and frame.service_of(one) == service for one in frame.open.values()):
            frame.missing_since[service] = walk.now
        else:
            del frame.missing_since[service]

    def _await_worker(self, walk: Walk, frame: Frame, branch: Branch, call: Untaken) -> bool:
        """Wait for a worker if the flow's policy allows it and time is left, else fail.

        Without any live worker the call waits until one registers. A worker that is registered but
        cannot be reached is called again after a pause, for as long as the wait lasts. The time of
        a try begins when a worker accepts the call; the wait has its own limit.
        """
        flow = frame.flow
        may_wait = flow.fails_on_error and flow.worker_wait_ms and not frame.is_stopped
        failure = Failed(call.call_id, call.error, call.worker)
        if not may_wait or branch.excluded:
            return self.failed(walk, frame, failure, is_untaken=True)
        service = frame.service_of(branch)
        since = frame.missing_since.setdefault(service, walk.now)
        until = Instant(since + flow.worker_wait_ms * MILLISECOND)
        if walk.now >= until:
            branch.started_at = since
            if call.worker is None:
                waited = f"none offered {service!r} within {flow.worker_wait_ms / 1_000:g} s"
                failure = failure._replace(error=f"{call.error}: {waited}")
            return self.failed(walk, frame, failure, is_untaken=True)
        branch.started_at = branch.due_at = None
        if call.worker is None:
            branch.awaited_service = service
            self._rest(frame, branch, until)
        else:
            again_at = Instant(walk.now + rest_us(walk.now - since))
            self._rest(frame, branch, min(again_at, until))
        return True

    def _rest(self, frame: Frame, branch: Branch, until: Instant) -> None:
        branch.is_untaken = True
        branch.is_issued = False
        branch.call_at = until
        self.set_alarm(frame, branch)

    def _lose(
        self,
        walk: Walk,
        frame: Frame,
        branch: Branch,
        error: str,
        *,
        by: Worker | None = None,
        is_final: bool = False,
    ) -> None:
        """This try of the branch is lost."""
        node = frame.node
        if branch.try_no > node.max_retries or is_final or frame.is_stopped:
            del frame.open[branch.index]
            frame.errors[branch.index] = error
            self.settle(walk, frame, branch, output=None, error=error, by=by)
            return
        walk.record(
            frame, NodeRunStatus.ERROR, error=error, branch=branch, worker=by, is_settled=False
        )
        branch.try_no += 1
        branch.attempt = 1
        branch.excluded = ()
        branch.error, branch.worker = "", None
        branch.started_at = branch.due_at = None
        branch.is_untaken = False
        branch.awaited_service = ""
        self._put_off(walk, frame, branch, node.wait_ms)

    def abandon(self, walk: Walk, frame: Frame) -> None:
        """What waits to be called again is not called any more.

        After a crash, what is to be called at once may be under way already, and is waited for.
        """
        for branch in list(frame.open.values()):
            is_idle = not branch.is_issued
            if branch.call_at is not None and (is_idle or branch.call_at >= walk.now):
                del frame.open[branch.index]
                walk.record(frame, NodeRunStatus.CANCELED, error=ANOTHER_FAILED, branch=branch)
                frame.errors[branch.index] = ANOTHER_FAILED

    # What goes out.

    def _put_off(self, walk: Walk, frame: Frame, branch: Branch, delay_ms: int) -> None:
        branch.call_id = call_id(frame, branch.index, try_no=branch.try_no, attempt=branch.attempt)
        if delay_ms:
            branch.is_issued = False
            branch.call_at = Instant(walk.now + delay_ms * MILLISECOND)
            self.set_alarm(frame, branch)
        else:
            self._call(walk, frame, branch)

    def _call(self, walk: Walk, frame: Frame, branch: Branch) -> None:
        branch.call_at = None
        branch.is_issued = True
        branch.is_untaken = False
        branch.awaited_service = ""
        if branch.started_at is None:
            branch.started_at = walk.now
            timeout_ms = frame.node.timeout_ms
            if timeout_ms:
                branch.due_at = Instant(walk.now + timeout_ms * MILLISECOND)
        self.set_alarm(frame, branch)
        walk.commit.commands.append(self._command(frame, branch))

    def set_alarm(self, frame: Frame, branch: Branch) -> None:
        rings_at = branch.rings_at
        if rings_at is not None:
            heappush(frame.alarms, (rings_at, branch.index))

    def _command(self, frame: Frame, branch: Branch) -> Command:
        node = frame.node
        given = frame.input_of(branch)
        if node.flow:
            is_given = node.kind is Kind.FOREACH or has_prep(node)
            params = {**frame.merged, "input": given} if is_given else frame.merged
            return StartChild(branch.call_id, node.flow, node.version, params)
        if node.function:
            return CallFunction(
                branch.call_id, node.function, given, frame.merged, branch.try_no, branch.due_at
            )
        return CallService(
            branch.call_id,
            frame.service_of(branch),
            given,
            frame.merged,
            branch.try_no,
            branch.attempt,
            branch.excluded,
            node.weighted_by_load,
            branch.due_at,
            _may_ask_another(node, branch),
        )


class OneCall(CallRules):
    """A node whose result is the result of its one call."""

    def restore(self, frame: Frame) -> None:
        frame.branch_count = 1

    def settle(
        self,
        walk: Walk,
        frame: Frame,
        branch: Branch,
        *,
        output: Any,
        error: str,
        by: Worker | None,
    ) -> None:
        if error:
            walk.fail(frame, error, branch=branch, worker=by)
        else:
            walk.succeed(frame, output, branch=branch, worker=by)


def _may_ask_another(node: Node, branch: Branch) -> bool:
    return branch.attempt < (node.max_attempts or ASKED_COUNT_MAX)


def rest_us(waited_us: int) -> int:
    """Return the pause of a call that no worker took: the time it has waited, within limits."""
    return min(max(waited_us, UNTAKEN_US_MIN), UNTAKEN_US_MAX)


def open_count_max(node: Node) -> int:
    if node.parallel_mode is Mode.SEQUENTIAL:
        return 1
    return node.max_parallel or OPEN_COUNT_DEFAULT


def call_id(frame: Frame, index: int, *, try_no: int, attempt: int) -> str:
    """The same after a crash; never the same for another visit, branch, try or worker."""
    return f"{frame.since}.{index}.{try_no}.{attempt}"


def branch_of(frame: Frame, wanted: str) -> Branch | None:
    """The branch that waits for this call, if any does. The id may be anything."""
    parts = wanted.split(".", 2)
    is_index = len(parts) == 3 and parts[1].isdecimal() and len(parts[1]) < 10
    branch = frame.open.get(int(parts[1])) if is_index else None
    return branch if branch is not None and branch.call_id == wanted else None
