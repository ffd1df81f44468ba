"""The driver of a flow task, from its claim until it parks, ends, or loses its claim.

The driver passes inputs to the pure flow engine, stores the result of a step in one commit, and
only then performs the effects of the step. After a crash, only calls whose outcome was not stored
are repeated. A commit that may have failed is harmless: the driver loads the state again, and
repeats the inputs that the stored state does not contain.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Never

from headway.core.batch_state import InboxItem
from headway.core.command.flow.advance import Advanced, AdvanceFlow, ContinueTask, EndTask, ParkTask
from headway.core.command.flow.load_task import LoadTask, ReadTaskUpdates, StoredTask, TaskUpdates
from headway.core.document import NULL, encode_document
from headway.core.errors import InfrastructureError, InvalidInput, StoreClosed, TooLarge
from headway.core.flow.engine.inputs import (
    Aborted,
    CallOutcome,
    FlowInput,
    ServiceOffered,
    Signalled,
    Woken,
)
from headway.core.flow.engine.records import CHILD_ENDED, SIGNAL
from headway.core.flow.engine.state import FlowState, StepResult
from headway.core.flow.engine.step import create_state, next_wake_at, step
from headway.core.flow.engine.stored_state import load_state
from headway.core.ids import SECOND_US, Instant, RunId
from headway.core.run.status import RunStatus
from headway.log import event_log
from headway.ports.flow_reader import FlowReader
from headway.ports.run_reader import RunReader
from headway.ports.store import Store
from headway.services.context.run_context import RunContext
from headway.services.flow.child_tasks import ChildTasks
from headway.services.flow.definition_cache import DefinitionCache
from headway.services.flow.flow_clock import FlowClock
from headway.services.flow.functions import Functions
from headway.services.flow.node_calls import Calls, WakeEvent
from headway.services.flow.step_writer import StepWriter, to_stored_state
from headway.services.flow.waiting_nodes import ALWAYS_PARKED, wait_reason
from headway.services.flow.workers import Workers
from headway.services.refused_writes import WriteRefusals
from headway.services.retrying import RETRY_S, retry_until_available
from headway.services.submit.submitter import Submitter

PARK_WAIT_US_MIN: Final = SECOND_US
"""A task that waits for a shorter time does not park: parking and a new claim cost more."""
CHILD_POLL_US: Final = 10 * SECOND_US
"""How often a task that waits for children polls them, in case a notification is lost."""
WORKER_POLL_US: Final = SECOND_US
"""How often a driver polls for an awaited worker while other branches are in flight."""

log = event_log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowServices:
    """The services that all drivers of a process share."""

    store: Store
    run_reader: RunReader
    flow_reader: FlowReader
    clock: FlowClock
    definitions: DefinitionCache
    submitter: Submitter
    functions: Functions
    workers: Workers

    async def drive_task(self, context: RunContext, /, **_params: Any) -> AdvanceFlow:
        """Execute a flow task. This is the job function of all flow tasks.

        Return the last step of the execution, which ends or parks the task.
        """
        return await TaskDriver(context, self).run()


class TaskDriver:
    """Drives one execution of one task."""

    def __init__(self, context: RunContext, services: FlowServices) -> None:
        self._context = context
        self._services = services
        self._run_id: RunId = context.run_id
        self._wake_event = context.execution.wakeup = WakeEvent()
        # Services run in workers, so only a local function could cause a stop of this process.
        context.execution.has_progressed = True
        checkpoint: dict[str, Any] = context.checkpoint or {}
        self._checkpoint = checkpoint
        claim = context.execution.claim
        self._writer = StepWriter(claim, checkpoint.get("parent_id"))
        self._claim = claim
        self._children = ChildTasks(
            claim,
            services.store,
            services.run_reader,
            services.definitions,
            services.submitter,
            is_child=bool(checkpoint.get("parent_id")),
        )
        self._calls = Calls(
            context, services, self._children, self._wake_event, locate_call=self._locate_call
        )
        self._unsaved_outcomes: list[CallOutcome] = []
        """Outcomes of calls that are applied to the state but not stored yet."""
        self._unsaved_inbox_seqs: list[int] = []
        """The `seq` of each inbox item that is applied to the state but not stored as consumed."""
        self._read_seq = 0
        self._has_unread = False
        self._first_node_since: Instant | None = None
        """When this or an earlier execution may have begun the first node.

        None if no execution can have begun it, or if the task has a stored state.
        """

    async def run(self) -> AdvanceFlow:
        must_load = self._checkpoint.get("is_kept") or self._context.execution.claimed.unread_count
        is_first = self._context.generation == 1
        await self._load(is_new=is_first and not must_load)
        if is_first:
            self._first_node_since = None  # No earlier execution has reached a node.
        async with asyncio.TaskGroup() as group:
            self._calls.start(group)
            try:
                return await self._run_steps()
            finally:
                self._calls.cancel_all()

    # The state.

    async def _load(self, *, is_new: bool = False) -> None:
        checkpoint = self._checkpoint
        if "flow" not in checkpoint:
            raise ValueError(
                "a flow task cannot be submitted as a job; start it with `flows.start`"
            )
        definitions = self._services.definitions
        flow = await retry_until_available(
            lambda: definitions.flow(checkpoint["flow"], checkpoint["version"])
        )
        parts = None
        rows: Sequence[Any] = ()
        if not is_new:
            self._calls.may_have_children = True
            stored = await retry_until_available(self._read_task)
            self._services.clock.sync(stored.now)
            self._writer.load(stored)
            self._has_unread = bool(stored.unread)
            parts, rows = to_stored_state(stored), stored.rows
        self._unsaved_inbox_seqs.clear()
        self._read_seq = 0
        # Secrets stay sealed in everything stored about a task. Only callees receive the values.
        params = json.loads(self._context.execution.claimed.params)
        self._state: FlowState = (
            create_state(flow, params) if parts is None else load_state(flow, params, parts, rows)
        )
        self._first_node_since = (
            self._context.execution.claimed.started_at if parts is None else None
        )

    async def _read_task(self) -> StoredTask:
        stored = await self._services.store.apply(LoadTask(self._claim))
        return stored or await _wait_for_stop()

    async def _run_steps(self) -> AdvanceFlow:
        inputs: Sequence[FlowInput] = await self._read_resume_inputs()
        refusals = WriteRefusals(self._services.store, self._claim)
        while True:  # Until the task ends or parks, or its execution is stopped.
            try:
                result = self._step(inputs)
                last = self._build_last(result)
                if last is not None:
                    return last
                await self._save(result)
            except InvalidInput as error:
                if isinstance(inputs[0], Aborted):
                    raise
                await self._load()
                code = "too_large" if isinstance(error, TooLarge) else "invalid_state"
                inputs = [Aborted(f"{code}: {error}")]
                continue
            except StoreClosed:
                raise
            except InfrastructureError as error:
                log.warning("step_write_failed", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
                await self._load()
                self._calls.cancel_except(
                    {branch.call_id for branch in self._state.frames[-1].open_branches.values()}
                )
                if await refusals.is_final(error):
                    inputs = [Aborted(f"not_stored: {error}")]
                    continue
                # A copy: reading the inbox appends to the list.
                outcomes = list(self._unsaved_outcomes)
                inputs = [*await self._read_resume_inputs(), *outcomes]
                continue
            refusals.reset()
            may_run_inline = result.wake_at is None
            await self._calls.perform(
                result.effects, processed=self._unsaved_outcomes, may_run_inline=may_run_inline
            )
            self._unsaved_outcomes.clear()
            inputs = await self._wait_for_inputs(result.wake_at)
            if not inputs:
                return self._build_park(StepResult())

    def _step(self, inputs: Sequence[FlowInput]) -> StepResult:
        """Apply all inputs to the state, and merge the step results into one for one commit."""
        now = self._services.clock.now()
        if len(inputs) == 1:
            return step(self._state, inputs[0], now)
        merged = StepResult(is_changed=False)
        for flow_input in inputs:
            result = step(self._state, flow_input, now)
            merged.wake_at = result.wake_at
            if not result.is_changed:
                continue
            merged.is_changed = True
            merged.rows += result.rows
            merged.effects += result.effects
            merged.shared_keys |= result.shared_keys
            merged.is_inner_changed |= result.is_inner_changed
            merged.is_frozen_changed |= result.is_frozen_changed
        return merged

    async def _save(self, result: StepResult) -> None:
        """Store the step, unless the task would reach the same state when it is loaded again."""
        if not self._writer.has_changes(self._state, result):
            return
        advance = self._build_advance(result, ContinueTask())
        answer = await self._services.store.apply(advance)
        if answer is False:
            await _wait_for_stop()
        assert isinstance(answer, Advanced)
        self._calls.has_saved_step = self._context.execution.has_progressed = True
        self._writer.mark_stored()
        self._services.clock.sync(answer.now)
        self._unsaved_inbox_seqs.clear()
        self._has_unread = answer.unread_count > 0

    def _build_advance(
        self, result: StepResult, then: ContinueTask | ParkTask | EndTask
    ) -> AdvanceFlow:
        cancelled = self._children.list_cancelled(result.effects)
        return self._writer.build_advance(
            self._state,
            result,
            consumed_seqs=self._unsaved_inbox_seqs,
            cancelled_ids=cancelled,
            then=then,
        )

    # Ending and parking.

    def _build_last(self, result: StepResult) -> AdvanceFlow | None:
        """Return the last step of this execution if the task ends or parks now, else None."""
        if self._state.is_over:
            return self._build_end(result)
        if result.effects or not self._is_idle():
            return None
        return self._build_park(result)

    def _is_idle(self) -> bool:
        """Return True if this execution expects no input soon, so that the task may park."""
        if self._has_unread or not self._calls.is_idle:
            return False
        wake_at = next_wake_at(self._state)
        if wake_at is None or wait_reason(self._state) in ALWAYS_PARKED:
            return True
        return wake_at - self._services.clock.now() > PARK_WAIT_US_MIN

    def _build_end(self, result: StepResult) -> AdvanceFlow:
        state = self._state
        end = EndTask(None, encode_document(state.shared, field="result"))
        if state.status is not RunStatus.SUCCEEDED:
            error = to_task_error(state)
            end = EndTask(encode_document(error, field="error"), NULL)
        return self._build_advance(result, end)

    def _build_park(self, result: StepResult) -> AdvanceFlow:
        state = self._state
        wake_at = next_wake_at(state)
        if self._children.open_child_ids:
            poll_at = Instant(self._services.clock.now() + CHILD_POLL_US)
            wake_at = poll_at if wake_at is None else min(wake_at, poll_at)
        park = ParkTask(wait_reason(state), wake_at, state.frames[0].node.key)
        return self._build_advance(result, park)

    def _locate_call(self, call_id: str) -> dict[str, Any]:
        location: dict[str, Any] = {"node": self._state.frames[0].node.key}
        frame = self._state.frames[-1]
        if frame.branch_count > 1:
            location["branch"] = next(
                (
                    index
                    for index, branch in frame.open_branches.items()
                    if branch.call_id == call_id
                ),
                None,
            )
        return location

    # Inputs.

    async def _read_resume_inputs(self) -> list[FlowInput]:
        """Return the inputs of a resumed task: its unread inbox, and a wake-up.

        A signal is visible to readers as soon as it is accepted. Signals therefore precede the
        wake-up, which applies elapsed time. Only signals that were accepted after the first node
        was begun follow the wake-up.
        """
        signals, children = await self._read_inbox()
        since = self._first_node_since
        early = list(takewhile(lambda signal: since is None or signal.at <= since, signals))
        later = signals[len(early) :]
        resume_inputs = [*map(_to_signal, early), Woken(), *map(_to_signal, later), *children]
        return [*resume_inputs, *await self._read_offers()]

    async def _wait_for_inputs(self, wake_at: Instant | None) -> Sequence[FlowInput]:
        """Wait for inputs and return them. An empty result means that the task may be parked."""
        while True:  # Until there is an input.
            self._has_unread |= self._wake_event.clear_and_check_news()
            ended = self._calls.take_ended()
            self._unsaved_outcomes = list(ended)
            if ended and not self._has_unread and wake_at is None:
                return ended
            # Signals received during a call precede its outcome, so that the next node gets them.
            signals, children = await self._read_inbox()
            inputs: list[FlowInput] = [*map(_to_signal, signals), *children, *ended]
            now = self._services.clock.now()
            if wake_at is not None and wake_at <= now:
                inputs.append(Woken())
            inputs += await self._read_offers()
            if inputs or self._is_idle():
                return inputs
            poll_at = wake_at
            if self._state.frames[-1].awaited_services:
                next_poll_at = Instant(now + WORKER_POLL_US)
                poll_at = next_poll_at if wake_at is None else min(next_poll_at, wake_at)
            if poll_at is None:
                await self._wake_event.wait()
                continue
            try:
                async with self._services.clock.timeout((poll_at - now) / SECOND_US):
                    await self._wake_event.wait()
            except TimeoutError:
                continue

    async def _read_offers(self) -> list[FlowInput]:
        """Return an input for each awaited service that a live worker offers now."""
        awaited = self._state.frames[-1].awaited_services
        if not awaited or self._state.is_over:
            return []
        offered = await retry_until_available(
            lambda: self._services.workers.filter_offered(awaited)
        )
        return [ServiceOffered(service) for service in sorted(offered)]

    async def _read_inbox(self) -> tuple[list[InboxItem], list[CallOutcome]]:
        """Return the new signals in the inbox, in order, and the outcomes of ended children."""
        if not self._has_unread:
            return [], []
        self._has_unread = False
        items = (await self._read_news()).unread
        new_items = [item for item in items if item.seq > self._read_seq]
        signals = [item for item in new_items if item.kind == SIGNAL]
        children: list[CallOutcome] = []
        if new_items:
            self._read_seq = new_items[-1].seq
            self._unsaved_inbox_seqs += [item.seq for item in new_items]
        ended_ids = [
            RunId(json.loads(item.payload)) for item in new_items if item.kind == CHILD_ENDED
        ]
        if ended_ids and self._children.open_child_ids:
            children += self._children.take_ended(
                (await self._read_news(*ended_ids)).ended_children
            )
            self._unsaved_outcomes += children
        return signals, children

    async def _read_news(self, *child_ids: RunId) -> TaskUpdates:
        updates = await retry_until_available(
            lambda: self._services.store.apply(ReadTaskUpdates(self._claim, child_ids))
        )
        return updates or await _wait_for_stop()


def to_task_error(state: FlowState) -> dict[str, Any]:
    """Return the error document of a failed task: a code, a message, and the failed node."""
    error = {"code": state.error_code or "flow_failed", "message": state.error}
    if not state.failed_path or not state.frames[0].flow.fails_on_error:
        return error
    node = "/".join(state.failed_path)
    if not state.error_code:
        error["message"] = f"node {node!r} failed: {state.error}"
    return error | {"node": node}


async def _wait_for_stop() -> Never:
    """Wait until the engine cancels this task: its claim is lost, or its run was canceled."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable: the event is never set")


def _to_signal(item: InboxItem) -> Signalled:
    payload = json.loads(item.payload)
    return Signalled(payload["key"], payload["value"])
