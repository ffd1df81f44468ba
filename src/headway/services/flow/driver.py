"""The driver of a flow task, from its claim until it parks, ends, or is taken away.

What happened goes into the pure engine; what comes of it is stored in one commit; only then is
anything done about it. So a crash repeats the calls whose end was not stored, and nothing else. A
commit that may not have landed is no harm: the state is read again, and what happened since is let
happen once more.
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

PARK_WAIT_US_MIN: Final = SECOND_US
"""Who waits for less stays: to park and be claimed again costs more."""
CHILD_POLL_US: Final = 10 * SECOND_US
"""How often a task that waits for its children looks at them, should nobody tell it."""
WORKER_POLL_US: Final = SECOND_US
"""How often a driver checks for a worker that a branch awaits while others are in flight."""

log = event_log(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowServices:
    """What every driver of a process works with."""

    store: Store
    run_reader: RunReader
    flow_reader: FlowReader
    clock: FlowClock
    definitions: DefinitionCache
    functions: Functions
    workers: Workers

    async def drive_task(self, context: RunContext, /, **_params: Any) -> AdvanceFlow:
        """The job of all flow tasks. Its last step says how it ends, or that it is parked."""
        return await TaskDriver(context, self).run()


class TaskDriver:
    """One execution of one task."""

    def __init__(self, context: RunContext, desk: FlowServices) -> None:
        self._context = context
        self._services = desk
        self._run_id: RunId = context.run_id
        self._wake_event = context.execution.wakeup = WakeEvent()
        # Services run in workers, so only a local function could cause a stop of this process.
        context.execution.has_progressed = True
        pin: dict[str, Any] = context.checkpoint or {}
        self._checkpoint = pin
        claim = context.execution.claim
        self._writer = StepWriter(claim, pin.get("parent_id"))
        self._claim = claim
        self._children = ChildTasks(
            claim,
            desk.store,
            desk.run_reader,
            desk.definitions,
            is_child=bool(pin.get("parent_id")),
        )
        self._calls = Calls(
            context, desk, self._children, self._wake_event, locate_call=self._locate_call
        )
        self._unsaved_outcomes: list[CallOutcome] = []
        """In the state, and not stored yet."""
        self._unsaved_inbox_seqs: list[int] = []
        """Of the inbox: in the state, and not stored yet."""
        self._read_seq = 0
        self._has_unread = False
        self._first_node_since: Instant | None = None
        """Since when its first node may be under way, if nothing of that is stored."""

    async def run(self) -> AdvanceFlow:
        is_kept = self._checkpoint.get("is_kept") or self._context.execution.claimed.unread_count
        is_first = self._context.generation == 1
        await self._load(is_new=is_first and not is_kept)
        if is_first:
            self._first_node_since = None  # Nobody has reached a node before.
        async with asyncio.TaskGroup() as group:
            self._calls.start(group)
            try:
                return await self._run_steps()
            finally:
                self._calls.cancel_all()

    # The state.

    async def _load(self, *, is_new: bool = False) -> None:
        pin = self._checkpoint
        if "flow" not in pin:
            raise ValueError("a flow task is started by `flows.start`, not as a job")
        definitions = self._services.definitions
        flow = await retry_until_available(lambda: definitions.flow(pin["flow"], pin["version"]))
        parts = None
        rows: Sequence[Any] = ()
        if not is_new:
            self._calls.may_have_children = True
            kept = await retry_until_available(self._read_task)
            self._services.clock.sync(kept.now)
            self._writer.load(kept)
            self._has_unread = bool(kept.unread)
            parts, rows = to_stored_state(kept), kept.rows
        self._unsaved_inbox_seqs.clear()
        self._read_seq = 0
        # Secrets stay sealed in all that is kept of a task; only who is called is given them.
        params = json.loads(self._context.execution.claimed.params)
        self._state: FlowState = (
            create_state(flow, params) if parts is None else load_state(flow, params, parts, rows)
        )
        self._first_node_since = (
            self._context.execution.claimed.started_at if parts is None else None
        )

    async def _read_task(self) -> StoredTask:
        kept = await self._services.store.apply(LoadTask(self._claim))
        return kept or await _wait_for_stop()

    async def _run_steps(self) -> AdvanceFlow:
        happened: Sequence[FlowInput] = await self._read_resume_inputs()
        refusals = WriteRefusals(self._services.store, self._claim)
        while True:  # Until it is over, or parks, or its execution is ended.
            try:
                commit = self._step(happened)
                last = self._build_last(commit)
                if last is not None:
                    return last
                await self._save(commit)
            except InvalidInput as error:
                if isinstance(happened[0], Aborted):
                    raise
                await self._load()
                code = "too_large" if isinstance(error, TooLarge) else "invalid_state"
                happened = [Aborted(f"{code}: {error}")]
                continue
            except StoreClosed:
                raise
            except InfrastructureError as error:
                log.warning("step_not_stored", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
                await self._load()
                self._calls.cancel_except(
                    {one.call_id for one in self._state.frames[-1].open_branches.values()}
                )
                if await refusals.is_final(error):
                    happened = [Aborted(f"not_stored: {error}")]
                    continue
                stepped = list(self._unsaved_outcomes)  # To which those of the inbox are added.
                happened = [*await self._read_resume_inputs(), *stepped]
                continue
            refusals.reset()
            may_stay = commit.wake_at is None
            await self._calls.perform(
                commit.effects, processed=self._unsaved_outcomes, may_run_inline=may_stay
            )
            self._unsaved_outcomes.clear()
            happened = await self._wait_for_inputs(commit.wake_at)
            if not happened:
                return self._build_park(StepResult())

    def _step(self, happened: Sequence[FlowInput]) -> StepResult:
        """Let all of it happen, for one commit."""
        now = self._services.clock.now()
        if len(happened) == 1:
            return step(self._state, happened[0], now)
        merged = StepResult(is_changed=False)
        for one in happened:
            commit = step(self._state, one, now)
            merged.wake_at = commit.wake_at
            if not commit.is_changed:
                continue
            merged.is_changed = True
            merged.rows += commit.rows
            merged.effects += commit.effects
            merged.shared_keys |= commit.shared_keys
            merged.is_inner_changed |= commit.is_inner_changed
            merged.is_frozen_changed |= commit.is_frozen_changed
        return merged

    async def _save(self, commit: StepResult) -> None:
        """Store the step, unless whoever loads the task would come to the very same one."""
        if not self._writer.has_changes(self._state, commit):
            return
        advance = self._build_advance(commit, ContinueTask())
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
        self, commit: StepResult, then: ContinueTask | ParkTask | EndTask
    ) -> AdvanceFlow:
        cancelled = self._children.list_cancelled(commit.effects)
        return self._writer.build_advance(
            self._state,
            commit,
            consumed_seqs=self._unsaved_inbox_seqs,
            cancelled_ids=cancelled,
            then=then,
        )

    # Its end, or its rest.

    def _build_last(self, commit: StepResult) -> AdvanceFlow | None:
        """The step after which nobody has to hold the task, if this is one."""
        if self._state.is_over:
            return self._build_end(commit)
        if commit.effects or not self._is_idle():
            return None
        return self._build_park(commit)

    def _is_idle(self) -> bool:
        """Whether nothing will happen soon that this execution would hear of."""
        if self._has_unread or not self._calls.is_idle:
            return False
        wakes_at = next_wake_at(self._state)
        if wakes_at is None or wait_reason(self._state) in ALWAYS_PARKED:
            return True
        return wakes_at - self._services.clock.now() > PARK_WAIT_US_MIN

    def _build_end(self, commit: StepResult) -> AdvanceFlow:
        state = self._state
        end = EndTask(None, encode_document(state.shared, field="result"))
        if state.status is not RunStatus.SUCCEEDED:
            error = to_task_error(state)
            end = EndTask(encode_document(error, field="error"), NULL)
        return self._build_advance(commit, end)

    def _build_park(self, commit: StepResult) -> AdvanceFlow:
        state = self._state
        wakes_at = next_wake_at(state)
        if self._children.open_child_ids:
            look_at = Instant(self._services.clock.now() + CHILD_POLL_US)
            wakes_at = look_at if wakes_at is None else min(wakes_at, look_at)
        kind = wait_reason(state)
        told = encode_document(
            {"waits_for": kind, "node": state.frames[0].node.key}, field="waits_for"
        )
        parks = ParkTask(kind, wakes_at, told)
        return self._build_advance(commit, parks)

    def _locate_call(self, call_id: str) -> dict[str, Any]:
        place: dict[str, Any] = {"node": self._state.frames[0].node.key}
        frame = self._state.frames[-1]
        if frame.branch_count > 1:
            place["branch"] = next(
                (index for index, one in frame.open_branches.items() if one.call_id == call_id),
                None,
            )
        return place

    # What happens next.

    async def _read_resume_inputs(self) -> list[FlowInput]:
        """What has come in, and that somebody goes on with the task.

        All but the driver see a signal as soon as it is accepted: it goes before what the time has
        brought since. Only what has come in since the first node was begun goes after it.
        """
        signals, children = await self._read_inbox()
        at = self._first_node_since
        first = list(takewhile(lambda one: at is None or one.at <= at, signals))
        later = signals[len(first) :]
        resumed = [*map(_to_signal, first), Woken(), *map(_to_signal, later), *children]
        return [*resumed, *await self._read_offers()]

    async def _wait_for_inputs(self, wakes_at: Instant | None) -> Sequence[FlowInput]:
        """What has happened, as soon as anything has; nothing: the task may be parked."""
        while True:  # Until something has happened.
            self._has_unread |= self._wake_event.clear_and_check_news()
            ended = self._calls.take_ended()
            self._unsaved_outcomes = list(ended)
            if ended and not self._has_unread and wakes_at is None:
                return ended
            # What came in during a call goes before its end, so that the next node sees it.
            signals, children = await self._read_inbox()
            happened: list[FlowInput] = [*map(_to_signal, signals), *children, *ended]
            now = self._services.clock.now()
            if wakes_at is not None and wakes_at <= now:
                happened.append(Woken())
            happened += await self._read_offers()
            if happened or self._is_idle():
                return happened
            look_at = wakes_at
            if self._state.frames[-1].awaited_services:
                soon = Instant(now + WORKER_POLL_US)
                look_at = soon if wakes_at is None else min(soon, wakes_at)
            if look_at is None:
                await self._wake_event.wait()
                continue
            try:
                async with self._services.clock.timeout((look_at - now) / SECOND_US):
                    await self._wake_event.wait()
            except TimeoutError:
                continue

    async def _read_offers(self) -> list[FlowInput]:
        """Return the awaited services that live workers offer now."""
        awaited = self._state.frames[-1].awaited_services
        if not awaited or self._state.is_over:
            return []
        offered = await retry_until_available(
            lambda: self._services.workers.filter_offered(awaited)
        )
        return [ServiceOffered(service) for service in sorted(offered)]

    async def _read_inbox(self) -> tuple[list[InboxItem], list[CallOutcome]]:
        """Signals, in their order, and the ends of children."""
        if not self._has_unread:
            return [], []
        self._has_unread = False
        items = (await self._read_news()).unread
        fresh = [item for item in items if item.seq > self._read_seq]
        signals = [item for item in fresh if item.kind == SIGNAL]
        children: list[CallOutcome] = []
        if fresh:
            self._read_seq = fresh[-1].seq
            self._unsaved_inbox_seqs += [item.seq for item in fresh]
        ended_ids = [RunId(json.loads(item.payload)) for item in fresh if item.kind == CHILD_ENDED]
        if ended_ids and self._children.open_child_ids:
            children += self._children.take_ended(
                (await self._read_news(*ended_ids)).ended_children
            )
            self._unsaved_outcomes += children
        return signals, children

    async def _read_news(self, *child_ids: RunId) -> TaskUpdates:
        news = await retry_until_available(
            lambda: self._services.store.apply(ReadTaskUpdates(self._claim, child_ids))
        )
        return news or await _wait_for_stop()


def to_task_error(state: FlowState) -> dict[str, Any]:
    """Return the error of a failed task for its readers: the node and the cause."""
    error = {"code": state.error_code or "flow_failed", "message": state.error}
    if not state.failed_path or not state.frames[0].flow.fails_on_error:
        return error
    node = "/".join(state.failed_path)
    if not state.error_code:
        error["message"] = f"node {node!r} failed: {state.error}"
    return error | {"node": node}


async def _wait_for_stop() -> Never:
    """It was asked to end, or is another's, and is told so soon: nothing more is done here."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def _to_signal(item: InboxItem) -> Signalled:
    payload = json.loads(item.payload)
    return Signalled(payload["key"], payload["value"])
