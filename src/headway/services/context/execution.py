"""One execution of a run, between the engine that drives it and the job that it calls."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

from headway.core.command.run.claim import ClaimedRun
from headway.core.run.run import Claim
from headway.core.timeouts import DEFAULT_TIMEOUTS, Timeouts

DENIED_GRACE_S: Final = 1.0
"""How long a job that was answered instead of cancelled may go on with the answer."""


class Ending(StrEnum):
    """Why an execution is to end before its job has."""

    CANCELLED = "cancelled"
    """The run was cancelled."""
    SHUTDOWN = "shutdown"
    """The process stops. Another process executes the run again."""
    LOST = "lost"
    """Its claim is stale, so all its writes are refused."""


class Execution:
    """Told by the engine of news, of a slot and of its end. Belongs to one event loop."""

    def __init__(self, claimed: ClaimedRun, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self.claimed = claimed
        self.claim = Claim(claimed.run_id, claimed.token)
        self.timeouts = timeouts
        """The default time limits for the waits of its job."""
        self.ending: Ending | None = None
        self.is_settling = False
        """Its end is on the way to the store: that it is heard of is no surprise."""
        self.has_progressed = False
        """Whether it stored something new that later executions find: a stop is not counted."""
        self.has_slot = True
        """Whether it holds a slot, as far as the store has confirmed it."""
        self.was_waiting_at_stop: bool | None = None
        """Whether it already waited when its process began to stop; None if no stop has begun."""
        self.open_interrupt_count = 0
        """For how many answers of people the job waits."""
        self.deny_on_shutdown_count = 0
        """How many of these questions a shutdown answers with a denial."""
        self.is_cancelled = False
        """Whether its task was cancelled. A job that is a plain `def` does not notice that."""
        self.has_seen_ending = False
        """Whether the job has read that it must end."""
        self.wait_count = 0
        """For how many things the job waits without a slot."""
        self.wakeup = asyncio.Event()
        """Something may have come in for it."""
        self._task: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._grace_timer: asyncio.TimerHandle | None = None
        """Until a job that was denied its answer is cancelled."""
        self._has_entered = False
        self.has_begun = False
        """Whether its job may have been called."""
        self._stops_at_next_wait = False
        self.slot_future: asyncio.Future[None] | None = None
        """Another one for each wait."""

    def attach_task(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    async def wait_done(self, *, timeout_s: float | None = None) -> None:
        """Wait until all of it has ended, its clean-up too; no longer than `within_s`."""
        assert self._task is not None
        await asyncio.wait([self._task], timeout=timeout_s)

    def begin(self) -> None:
        """To be called first within the task; CancelledError: it was ended before it began."""
        self._has_entered = True
        if self.ending is not None:
            raise asyncio.CancelledError
        self.has_begun = True

    @contextmanager
    def open_call(self) -> Iterator[None]:
        """The present task waits for something in the job's name, and is to end with it."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            yield
        finally:
            self._calls.discard(task)

    def begin_wait(self) -> None:
        """The job waits without a slot from here on, until `wait_count` says otherwise."""
        self.wait_count += 1
        if self._stops_at_next_wait:
            self.end(Ending.SHUTDOWN)

    def note_stop(self) -> None:
        """The process begins to stop. A job that waits only from here on may be the reason."""
        if self.was_waiting_at_stop is None:
            self.was_waiting_at_stop = not self.has_slot or self.open_interrupt_count > 0

    def stop_at_next_wait(self) -> None:
        """No answer will come in time, and no slot after a wait: it ends when it waits, or now."""
        self._stops_at_next_wait = True
        if self.open_interrupt_count or self.wait_count:
            self.end(Ending.SHUTDOWN)

    def end(self, ending: Ending) -> None:
        """Ask the job to end, once: a second time would disturb it while it cleans up.

        A cancel answers the job's open questions, and leaves it a moment to act on the answers. A
        shutdown answers only those with `on_shutdown="deny"`; all others stay open.
        A lost claim overrides everything.
        """
        if self.ending is not None and (self.ending is ending or ending is not Ending.LOST):
            return
        is_first = self.ending is None
        self.ending = ending
        self.wakeup.set()
        is_answered = {
            Ending.CANCELLED: self.open_interrupt_count > 0,
            Ending.SHUTDOWN: self.deny_on_shutdown_count > 0,
            Ending.LOST: False,
        }
        if is_answered[ending]:
            self._grace_timer = asyncio.get_running_loop().call_later(DENIED_GRACE_S, self._cancel)
        elif is_first:
            self._cancel()

    def cancel_grace_timer(self) -> None:
        """Whatever follows is to be brought home: there is nothing left to cancel."""
        if self._grace_timer is not None:
            self._grace_timer.cancel()

    def note_ending(self) -> Ending | None:
        """Return why the job should end, and record that it has read this."""
        ending = self.ending  # Read once: a job may call this in a thread of its own.
        self.has_seen_ending = self.has_seen_ending or ending is not None
        return ending

    def is_result_valid(self, ending: Ending | None, *, is_interrupted: bool) -> bool:
        """Return whether the result of a job that has returned counts.

        `ending` is the reason for which the job had been asked to end when it returned. After a
        cancel the run ends canceled, whatever the job returns. A job that a shutdown interrupted
        may have returned early, so its run is executed again.
        """
        if ending is None:
            return self.ending is not Ending.LOST
        return ending is Ending.SHUTDOWN and not is_interrupted

    def _cancel(self) -> None:
        self.is_cancelled = True
        assert self._task is not None
        if self._has_entered:  # A cancelled task that has not started would never run.
            self._task.cancel()
        for task in self._calls:
            task.cancel()

    def grant_slot(self) -> None:
        if self.slot_future is not None and not self.slot_future.done():
            self.slot_future.set_result(None)

    def expect_slot(self) -> "asyncio.Future[None]":
        """To be awaited after the slot was asked for: the answer may be there before."""
        self.slot_future = asyncio.get_running_loop().create_future()
        return self.slot_future
