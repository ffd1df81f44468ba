"""The calls that one execution of a task makes: to workers, functions and child tasks."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from headway.core.flow.engine.effects import (
    CallFlow,
    CallFunction,
    CallService,
    CancelCall,
    Effect,
)
from headway.core.flow.engine.inputs import CallOutcome
from headway.services.context.run_context import RunContext
from headway.services.flow.child_tasks import ChildTasks
from headway.services.flow.functions import Functions
from headway.services.flow.workers import Workers


class Callees(Protocol):
    """The functions and workers that nodes can call."""

    @property
    def functions(self) -> Functions: ...

    @property
    def workers(self) -> Workers: ...


class WakeEvent(asyncio.Event):
    """Wakes the driver of a task, and records whether the inbox may have new items."""

    def __init__(self) -> None:
        super().__init__()
        self._has_news = False

    def set(self) -> None:
        """Wake the driver because the inbox may have new items. The engine calls this."""
        self._has_news = True
        super().set()

    def wake(self) -> None:
        """Wake the driver because a call has ended."""
        super().set()

    def clear_and_check_news(self) -> bool:
        """Clear the event. Return whether the inbox may have new items since the last call."""
        had_news, self._has_news = self._has_news, False
        self.clear()
        return had_news


class Calls:
    """A task's calls in flight, and the outcomes that are not yet applied to its state."""

    def __init__(
        self,
        context: RunContext,
        callees: Callees,
        children: ChildTasks,
        wake_event: WakeEvent,
        *,
        locate_call: Callable[[str], dict[str, Any]],
    ) -> None:
        """Create the calls of an execution. `locate_call` returns the node and branch of a call."""
        self._context = context
        self._callees = callees
        self._children = children
        self._wake_event = wake_event
        self._locate_call = locate_call
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._ended: list[CallOutcome] = []
        self.has_saved_step = False
        """True if this execution has stored a step."""
        self.may_have_children = False
        """True if an earlier execution of the task may already have started the children."""

    def start(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def cancel_all(self) -> None:
        for call in self._in_flight.values():
            call.cancel()

    @property
    def is_idle(self) -> bool:
        return not (self._in_flight or self._ended)

    def take_ended(self) -> list[CallOutcome]:
        """Remove and return the outcomes of calls that ended since the last `take_ended`."""
        ended, self._ended = self._ended, []
        return ended

    def cancel_except(self, open_call_ids: Collection[str]) -> None:
        """Cancel all calls in flight except those in `open_call_ids`.

        The effects that cancel these calls may have been lost with the answer to a commit.
        """
        for call_id in self._in_flight.keys() - open_call_ids:
            self._in_flight.pop(call_id).cancel()

    async def perform(
        self, effects: Sequence[Effect], *, processed: Sequence[CallOutcome], may_run_inline: bool
    ) -> None:
        """Perform the effects of a step.

        Calls whose outcomes are in `processed` are not made again. `may_run_inline` means that only
        the outcome of a single call can advance the task. Such a call needs no asyncio task of its
        own: a signal that arrives during the call stays in the inbox, where it is already visible
        to readers.
        """
        if may_run_inline and len(effects) == 1 and self.is_idle:
            match effects[0]:
                case CallService() | CallFunction() as only if _is_new(only.call_id, processed):
                    self._ended = [await self._await_outcome(only)]
                    return
                case _:
                    pass  # Handled below.
        started_ids = {
            outcome.call_id for outcome in (*processed, *self._ended)
        } | self._in_flight.keys()
        starts = self._start_calls(effects, started_ids)
        may_exist, self.may_have_children = self.may_have_children, False
        if starts:
            self._ended += await self._children.start(starts, may_exist=may_exist)

    def _start_calls(
        self, effects: Sequence[Effect], started_ids: Collection[str]
    ) -> list[CallFlow]:
        """Start the calls to workers and functions, and return the child tasks to start.

        Also cancel the calls that the effects cancel.
        """
        started = set(started_ids)
        starts: list[CallFlow] = []
        for effect in effects:
            match effect:
                case CallService() | CallFunction() if effect.call_id not in started:
                    started.add(effect.call_id)
                    self._in_flight[effect.call_id] = self._group.create_task(
                        self._run_call(effect)
                    )
                case CallFlow() if effect.call_id not in started:
                    starts.append(effect)
                case CancelCall(call_id, is_child):
                    starts = [start for start in starts if start.call_id != call_id]
                    if is_child:  # The stored step has already canceled the child.
                        self._children.open_child_ids.pop(call_id, None)
                    elif (call := self._in_flight.pop(call_id, None)) is not None:
                        call.cancel()
                case _:
                    pass  # Already started.
        return starts

    async def _run_call(self, command: CallService | CallFunction) -> None:
        try:
            outcome = await self._await_outcome(command)
            # `take_ended` may have replaced the list during the call.
            self._ended.append(outcome)
        finally:
            self._in_flight.pop(command.call_id, None)
            self._wake_event.wake()

    async def _await_outcome(self, command: CallService | CallFunction) -> CallOutcome:
        if isinstance(command, CallFunction):
            self._context.execution.has_progressed = self.has_saved_step
            return await self._callees.functions.call(command)
        return await self._callees.workers.call(
            command,
            run_id=self._context.run_id,
            generation=self._context.generation,
            report_progress=lambda progress: self._report_progress(command.call_id, progress),
        )

    def _report_progress(self, call_id: str, progress: dict[str, Any]) -> None:
        """Store a worker's progress as the progress of the task, with the node and branch."""
        self._group.create_task(self._context.progress(**progress | self._locate_call(call_id)))


def _is_new(call_id: str, processed: Sequence[CallOutcome]) -> bool:
    return all(outcome.call_id != call_id for outcome in processed)
