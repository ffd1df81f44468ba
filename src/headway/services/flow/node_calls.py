"""The calls of one execution of a task: to workers, to functions, and of child tasks."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from headway.core.flow.engine.effects import (
    CallFunction,
    CallService,
    CancelCall,
    Command,
    StartChild,
)
from headway.core.flow.engine.inputs import Ended
from headway.services.context.run_context import RunContext
from headway.services.flow.child_tasks import ChildTasks
from headway.services.flow.functions import Functions
from headway.services.flow.workers import Workers


class Callees(Protocol):
    @property
    def functions(self) -> Functions: ...

    @property
    def workers(self) -> Workers: ...


class Bell(asyncio.Event):
    """It is heard alike whoever rings; but what the engine rings for is in the inbox."""

    def __init__(self) -> None:
        super().__init__()
        self._is_told = False

    def set(self) -> None:
        self._is_told = True
        super().set()

    def ring(self) -> None:
        """A call has ended."""
        super().set()

    def stopped_ringing(self) -> bool:
        """Whether the engine had told of something since the last time."""
        is_told, self._is_told = self._is_told, False
        self.clear()
        return is_told


class Calls:
    """Those that are under way, and those that have ended and are not in the state yet."""

    def __init__(
        self,
        context: RunContext,
        callees: Callees,
        children: ChildTasks,
        bell: Bell,
        *,
        place_of: Callable[[str], dict[str, Any]],
    ) -> None:
        """`place_of`: where in the flow a call belongs."""
        self._context = context
        self._callees = callees
        self._children = children
        self._bell = bell
        self._place_of = place_of
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._ended: list[Ended] = []
        self.has_stepped = False
        """Whether this execution has stored a step."""
        self.may_have_children = False
        """What is started may have been started already, by whoever held the task before."""

    def begin(self, group: asyncio.TaskGroup) -> None:
        self._group = group

    def end(self) -> None:
        for call in self._under_way.values():
            call.cancel()

    @property
    def is_idle(self) -> bool:
        return not (self._under_way or self._ended)

    def take_ended(self) -> list[Ended]:
        """Those that have ended since the last time."""
        ended, self._ended = self._ended, []
        return ended

    def keep(self, wanted: Collection[str]) -> None:
        """Stop all others: the word that nobody waits for them may be lost with a step's answer."""
        for call_id in self._under_way.keys() - wanted:
            self._under_way.pop(call_id).cancel()

    async def perform(
        self, commands: Sequence[Command], *, stepped: Sequence[Ended], may_stay: bool
    ) -> None:
        """Do what a step wants done.

        `stepped` has ended, whatever the commands say of it. `may_stay`: nothing but the end of a
        single call can move the task. Then that needs no task of its own: a signal that comes
        meanwhile stays in the inbox, where all but the driver see it already.
        """
        if may_stay and len(commands) == 1 and self.is_idle:
            match commands[0]:
                case CallService() | CallFunction() as only if _is_new(only.call_id, stepped):
                    self._ended = [await self._outcome(only)]
                    return
                case _:
                    pass  # As all others.
        known = {one.call_id for one in (*stepped, *self._ended)} | self._under_way.keys()
        starts = self._begin(commands, known)
        may_exist, self.may_have_children = self.may_have_children, False
        if starts:
            self._ended += await self._children.start(starts, may_exist=may_exist)

    def _begin(self, commands: Sequence[Command], known: Collection[str]) -> list[StartChild]:
        """Begin what needs no word with the store, and tell which children are wanted."""
        begun = set(known)
        starts: list[StartChild] = []
        for command in commands:
            match command:
                case CallService() | CallFunction() if command.call_id not in begun:
                    begun.add(command.call_id)
                    self._under_way[command.call_id] = self._group.create_task(self._call(command))
                case StartChild() if command.call_id not in begun:
                    starts.append(command)
                case CancelCall(call_id, is_child):
                    starts = [one for one in starts if one.call_id != call_id]
                    if is_child:  # The step that was stored has cancelled it.
                        self._children.open.pop(call_id, None)
                    elif (call := self._under_way.pop(call_id, None)) is not None:
                        call.cancel()
                case _:
                    pass  # Under way already.
        return starts

    async def _call(self, command: CallService | CallFunction) -> None:
        try:
            outcome = await self._outcome(command)
            self._ended.append(outcome)  # Now: the list of before may have been taken meanwhile.
        finally:
            self._under_way.pop(command.call_id, None)
            self._bell.ring()

    async def _outcome(self, command: CallService | CallFunction) -> Ended:
        if isinstance(command, CallFunction):
            self._context.execution.has_progressed = self.has_stepped
            return await self._callees.functions.call(command)
        return await self._callees.workers.call(
            command,
            run_id=self._context.run_id,
            generation=self._context.generation,
            tell=lambda figures: self._tell(command.call_id, figures),
        )

    def _tell(self, call_id: str, figures: dict[str, Any]) -> None:
        """What a worker says of a call is the progress of the task, with the place in the flow."""
        self._group.create_task(self._context.progress(**figures | self._place_of(call_id)))


def _is_new(call_id: str, stepped: Sequence[Ended]) -> bool:
    return all(one.call_id != call_id for one in stepped)
