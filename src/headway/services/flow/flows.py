"""The public API of flows: start tasks, and signal, approve, rerun and list them."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, overload

from headway.core.command.flow.publish import FlowStart
from headway.core.command.flow.shared_state import AlreadyAnswered, PostSignal, SharedStateFull
from headway.core.command.run.inbox import InboxFull, NotActive
from headway.core.document import BYTE_COUNT_MAX, encode_document, parse_enum
from headway.core.errors import (
    ApprovalNotOpen,
    InboxOverflow,
    InvalidInput,
    KeyBusy,
    RunNotActive,
    RunNotFound,
    TooLarge,
)
from headway.core.flow.engine.inputs import check_signal_key
from headway.core.flow.engine.records import FLOW_JOB, encode_json, to_run_id
from headway.core.flow.engine.state import NodeRun
from headway.core.flow.engine.step import create_state
from headway.core.flow.engine.stored_state import to_cursor
from headway.core.ids import Instant, RunId
from headway.core.run.admission import TASK_POLICIES, OnConflict
from headway.core.run.explain import Explanation
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.ports.flow_reader import FlowTask, TaskFilter
from headway.services.flow.catalog import FlowCatalog
from headway.services.flow.explain_task import explain_task
from headway.services.flow.functions import FlowFunction
from headway.services.flow.step_writer import measure_signal
from headway.services.flow.task_view import (
    ROW_COUNT_MAX,
    TaskView,
    TaskViewBuilder,
    is_waiting_for_approval,
)
from headway.services.flow.waiting_nodes import APPROVAL
from headway.services.submit.run_handle import RunHandle

F = TypeVar("F", bound=FlowFunction)


class Flows(FlowCatalog):
    """The public API of flows, `hw.flows`.

    Functions can be registered at any time; everything else needs an open Headway.
    """

    @property
    def _views(self) -> TaskViewBuilder:
        return self._opened().views

    @overload
    def function(self, function: F, /) -> F: ...

    @overload
    def function(self, *, name: str | None = None) -> Callable[[F], F]: ...

    def function(  # type: ignore[misc]  # F occurs only in the result, so it cannot be bound here.
        self, function: FlowFunction | None = None, /, *, name: str | None = None
    ) -> Any:
        """Register a function for `local` nodes, under its own name unless `name` is given.

        The function is called with the node's input and, if it takes a second argument, with the
        parameters of the node. Its return value is the node's result, and an exception is the
        node's error.
        """

        def register(function: F) -> F:
            self.functions.add(function, name)
            return function

        return register if function is None else register(function)

    # Tasks.

    async def start(
        self,
        name: str,
        *,
        params: dict[str, Any] | None = None,
        version: int | None = None,
        key: str | None = None,
        lane: str | None = None,
        timeout_s: float | None = None,
        queue_timeout_s: float | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
        idempotency_key: str | None = None,
        by: str = "",
    ) -> RunHandle:
        """Submit a task of a flow, and return its handle once the task is stored.

        The task keeps its version of the flow when another version is published.
        """
        policy = _parse_policy(on_conflict)
        name, version = await self.resolve(name, version)
        number = (
            await self.services.definitions.read_newest_version(name)
            if version is None
            else version
        )
        flow = await self.services.definitions.flow(name, number)
        start = FlowStart(flow=name, version=number, node=flow.start)
        self._opened().register_job()
        return await self.services.submitter.submit_task(
            start,
            params,
            request=("task", name, version, key, lane, on_conflict, timeout_s, queue_timeout_s),
            key=key,
            lane=lane,
            timeout_s=timeout_s,
            queue_timeout_s=queue_timeout_s,
            on_conflict=policy,
            idempotency_key=idempotency_key,
            by=by,
        )

    async def rerun(
        self, task_id: str, node: str, *, idempotency_key: str | None = None, by: str = ""
    ) -> RunHandle:
        """Start a new task that repeats an ended task from `node` on.

        The new task has the version, key, parameters and shared state of the old task. Raise
        KeyBusy if the old task has not ended.
        """
        old = await self._read_task(task_id)
        view = await self._views.build(old)
        flow = await self.services.definitions.flow(view.flow, view.version)
        state = create_state(flow, view.params, node_key=node, shared=view.shared)
        start = FlowStart(
            flow=view.flow,
            version=view.version,
            node=node,
            cursor=encode_document(to_cursor(state), field="cursor"),
            shared=tuple(
                (encode_json(key), encode_json(value)) for key, value in state.shared.items()
            ),
            rerun_of=old.record.run.id,
        )
        run = old.record.run
        key = None if str(run.key) == str(run.id) else str(run.key)
        if run.is_active:
            raise KeyBusy(run.key, run.id)
        self._opened().register_job()
        return await self.services.submitter.submit_task(
            start,
            view.params,
            request=("rerun", run.id, node),
            key=key,
            lane=run.lane,
            idempotency_key=idempotency_key,
            by=by,
        )

    async def task(self, task_id: str) -> TaskView:
        """Return a view of the current state of a task."""
        return await self._views.build(await self._read_task(task_id))

    async def tasks(
        self,
        *,
        statuses: Sequence[RunStatus] = (),
        flow: str | None = None,
        waits_for: str | None = None,
        limit: int = 100,
        after: tuple[Instant, RunId] | None = None,
    ) -> Sequence[TaskView]:
        """Return tasks, most recently updated first.

        For the next page pass the `position` of the last task as `after`.
        """
        task_filter = TaskFilter(statuses=statuses, flow=flow, waits_for=waits_for)
        return [task async for task in self.iter_tasks(task_filter, limit=limit, after=after)]

    async def iter_tasks(
        self, task_filter: TaskFilter, *, limit: int, after: tuple[Instant, RunId] | None = None
    ) -> AsyncIterator[TaskView]:
        """Yield the results of `tasks` one by one, for callers that must limit their memory."""
        if task_filter.flow is not None:
            flow, _ = await self.resolve(task_filter.flow)
            task_filter = replace(task_filter, flow=flow)
        async for task in self.services.flow_reader.tasks(task_filter, limit=limit, after=after):
            yield await self._views.build(task)

    async def approvals(self, *, limit: int = 100) -> Sequence[TaskView]:
        """Return the tasks that wait for an approval."""
        return await self.tasks(waits_for=APPROVAL, limit=limit)

    async def node_runs(
        self, task_id: str, *, limit: int = ROW_COUNT_MAX, after_seq: int = 0
    ) -> Sequence[NodeRun]:
        """Return the node runs of a task, in the order in which they ended."""
        rows = self.iter_node_runs(task_id, limit=limit, after_seq=after_seq)
        return [row async for row in rows]

    async def iter_node_runs(
        self, task_id: str, *, limit: int, after_seq: int = 0
    ) -> AsyncIterator[NodeRun]:
        """Yield the results of `node_runs` one by one, for callers that must limit their memory."""
        task = await self._read_task(task_id)
        async for row in self._views.node_runs(task, limit=limit, after_seq=after_seq):
            yield row

    async def signal(self, task_id: str, key: str, value: Any, *, by: str = "") -> None:
        """Set `key` of the task's shared state, and wake the task.

        If the task does not wait for the signal yet, the signal is stored.

        Raise RunNotActive if the task has ended, and TooLarge if the value does not fit.
        """
        task = await self._read_task(task_id)
        if not task.record.run.is_active:
            raise RunNotActive(task.record.run.id)
        await self._post_signal(task_id, key, value, by=by)

    async def approve(self, task_id: str, answer: bool | str = True, *, by: str = "") -> None:
        """Answer the approval that the task waits for. The first answer is final.

        Raise ApprovalNotOpen if the task waits for no approval, or if the approval is already
        answered.
        """
        raw_answer: object = answer
        if not isinstance(raw_answer, bool | str) or raw_answer == "":
            raise InvalidInput("answer", "must be true, false, or the name of an action")
        view = await self.task(task_id)
        if not view.run.is_active:
            raise RunNotActive(view.id)
        if not is_waiting_for_approval(view):
            is_within = view.waits_for == APPROVAL
            raise ApprovalNotOpen(view.id, is_answered=False, needs_signal=is_within)
        assert view.awaited_key is not None
        await self._post_signal(
            task_id, view.awaited_key, answer, by=by, asked_generation=view.run.generation
        )

    async def _post_signal(
        self, task_id: str, key: str, value: Any, *, by: str, asked_generation: int | None = None
    ) -> None:
        run_id = to_run_id(task_id)
        document = encode_document(value, field="value")
        name = check_signal_key(key)
        usage = measure_signal(await self.services.flow_reader.shared_state(run_id), name, document)
        answer = await self.services.store.apply(
            PostSignal(
                run_id=run_id,
                key=name,
                value=document,
                usage=usage,
                by=by,
                asked_generation=asked_generation,
            )
        )
        if isinstance(answer, NotActive):
            raise RunNotActive(run_id)
        if isinstance(answer, InboxFull):
            raise InboxOverflow(run_id, answer.unread_count_max)
        if isinstance(answer, AlreadyAnswered):
            raise ApprovalNotOpen(run_id, is_answered=True)
        if isinstance(answer, SharedStateFull):
            problem = (
                f"does not fit: with all unread signals, the shared state would be"
                f" {answer.byte_count:,} bytes; the limit is {BYTE_COUNT_MAX:,}"
            )
            raise TooLarge("value", problem)

    async def refine_explanation(self, run: Run, explanation: Explanation) -> Explanation:
        """Return why a task does not advance, given the explanation of its run.

        If the run is not a task, return the explanation unchanged, without a query.
        """
        task = await self.services.flow_reader.task(run.id) if run.job == FLOW_JOB else None
        if task is None:
            return explanation
        view, state = await self._views.build_with_state(task)
        return explain_task(
            explanation,
            view,
            state,
            offered_services=await self.services.workers.read_offered_services(),
        )

    async def _read_task(self, task_id: str) -> FlowTask:
        run_id = to_run_id(task_id)
        task = await self.services.flow_reader.task(run_id)
        if task is None:
            raise RunNotFound(run_id, kind="task")
        return task


def _parse_policy(on_conflict: OnConflict | str) -> OnConflict:
    policy = parse_enum(OnConflict, on_conflict, field="on_conflict")
    if policy not in TASK_POLICIES:
        problem = f"does not apply to tasks; use one of: {', '.join(TASK_POLICIES)}"
        raise InvalidInput("on_conflict", problem)
    return policy
