"""The calls of one execution of a task: to workers, to functions, and of child tasks."""

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
    @property
    def functions(self) -> Functions: ...

    @property
    def workers(self) -> Workers: ...


class WakeEvent(asyncio.Event):
    """It is heard alike whoever rings; but what the engine rings for is in the inbox."""

    def __init__(self) -> None:
        super().__init__()
        self._has_news = False

    def set(self) -> None:
        self._has_news = True
        super().set()

    def wake(self) -> None:
        """A call has ended."""
        super().set()

    def clear_and_check_news(self) -> bool:
        """Whether the engine had told of something since the last time."""
        is_told, self._has_news = self._has_news, False
        self.clear()
        return is_told


class Calls:
    """Those that are under way, and those that have ended and are not in the state yet."""

    def __init__(
        self,
        context: RunContext,
        callees: Callees,
        children: ChildTasks,
        bell: WakeEvent,
        *,
        locate_call: Callable[[str], dict[str, Any]],
    ) -> None:
        """`place_of`: where in the flow a call belongs."""
        self._context = context
        self._callees = callees
        self._children = children
        self._wake_event = bell
        self._locate_call = locate_call
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        self._ended: list[CallOutcome] = []
        self.has_saved_step = False
        """Whether this execution has stored a step."""
        self.may_have_children = False
        """What is started may have been started already, by whoever held the task before."""

    def start(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def cancel_all(self) -> None:
        for call in self._in_flight.values():
            call.cancel()

    @property
    def is_idle(self) -> bool:
        return not (self._in_flight or self._ended)

    def take_ended(self) -> list[CallOutcome]:
        """Those that have ended since the last time."""
        ended, self._ended = self._ended, []
        return ended

    def cancel_except(self, wanted: Collection[str]) -> None:
        """Stop all others: the word that nobody waits for them may be lost with a step's answer."""
        for call_id in self._in_flight.keys() - wanted:
            self._in_flight.pop(call_id).cancel()

    async def perform(
        self, commands: Sequence[Effect], *, processed: Sequence[CallOutcome], may_run_inline: bool
    ) -> None:
        """Do what a step wants done.

        `stepped` has ended, whatever the commands say of it. `may_stay`: nothing but the end of a
        single call can move the task. Then that needs no task of its own: a signal that comes
        meanwhile stays in the inbox, where all but the driver see it already.
        """
        if may_run_inline and len(commands) == 1 and self.is_idle:
            match commands[0]:
                case CallService() | CallFunction() as only if _is_new(only.call_id, processed):
                    self._ended = [await self._await_outcome(only)]
                    return
                case _:
                    pass  # As all others.
        known = {one.call_id for one in (*processed, *self._ended)} | self._in_flight.keys()
        starts = self._start_calls(commands, known)
        may_exist, self.may_have_children = self.may_have_children, False
        if starts:
            self._ended += await self._children.start(starts, may_exist=may_exist)

    def _start_calls(self, commands: Sequence[Effect], known: Collection[str]) -> list[CallFlow]:
        """Begin what needs no word with the store, and tell which children are wanted."""
        begun = set(known)
        starts: list[CallFlow] = []
        for command in commands:
            match command:
                case CallService() | CallFunction() if command.call_id not in begun:
                    begun.add(command.call_id)
                    self._in_flight[command.call_id] = self._group.create_task(
                        self._run_call(command)
                    )
                case CallFlow() if command.call_id not in begun:
                    starts.append(command)
                case CancelCall(call_id, is_child):
                    starts = [one for one in starts if one.call_id != call_id]
                    if is_child:  # The step that was stored has cancelled it.
                        self._children.open_child_ids.pop(call_id, None)
                    elif (call := self._in_flight.pop(call_id, None)) is not None:
                        call.cancel()
                case _:
                    pass  # Under way already.
        return starts

    async def _run_call(self, command: CallService | CallFunction) -> None:
        try:
            outcome = await self._await_outcome(command)
            self._ended.append(outcome)  # Now: the list of before may have been taken meanwhile.
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
            report_progress=lambda figures: self._report_progress(command.call_id, figures),
        )

    def _report_progress(self, call_id: str, figures: dict[str, Any]) -> None:
        """What a worker says of a call is the progress of the task, with the place in the flow."""
        self._group.create_task(self._context.progress(**figures | self._locate_call(call_id)))


def _is_new(call_id: str, stepped: Sequence[CallOutcome]) -> bool:
    return all(one.call_id != call_id for one in stepped)
