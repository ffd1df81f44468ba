"""The state of one execution of a run, shared by the engine and the job's context."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

from headway.core.command.run.claim import ClaimedRun
from headway.core.run.run import Claim
from headway.core.timeouts import DEFAULT_TIMEOUTS, Timeouts

DENIED_GRACE_S: Final = 1.0
"""How long a job may continue after its interrupt was denied, before its task is canceled."""


class Ending(StrEnum):
    """The reason why an execution must end before its job has returned."""

    CANCELLED = "cancelled"
    """The run was canceled."""
    SHUTDOWN = "shutdown"
    """The process stops. Another process executes the run again."""
    LOST = "lost"
    """The claim of the execution is stale, so the store refuses all its writes."""


class Execution:
    """The state of one execution of a run. It belongs to one event loop.

    The engine notifies the execution when there are inbox items, when a slot is granted, and when
    the execution must stop.
    """

    def __init__(self, claimed: ClaimedRun, timeouts: Timeouts = DEFAULT_TIMEOUTS) -> None:
        self.claimed = claimed
        self.claim = Claim(claimed.run_id, claimed.token)
        self.timeouts = timeouts
        """The default time limits of the job's interrupts and compactions."""
        self.ending: Ending | None = None
        self.is_settling = False
        """True once the outcome is being written. Cancels and other decisions are then ignored."""
        self.has_progressed = False
        """True if the execution stored something that later executions find.

        If its process then stops, that does not count towards the limit of stops without progress.
        """
        self.has_slot = True
        """True if the execution holds a slot, according to the last answer of the store."""
        self.was_waiting_at_stop: bool | None = None
        """True if the job was waiting when its process began to stop; None before that."""
        self.open_interrupt_count = 0
        """The number of interrupts whose answers the job waits for."""
        self.deny_on_shutdown_count = 0
        """The number of open interrupts that a shutdown answers with a denial."""
        self.is_cancelled = False
        """True if the task was canceled. A job that is a plain `def` is not interrupted by that."""
        self.has_seen_ending = False
        """True if the job has read that it must end."""
        self.wait_count = 0
        """The number of things that the job waits for now without needing a slot."""
        self.wakeup = asyncio.Event()
        """Set when the inbox may have new items, or when the execution must end."""
        self._task: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._grace_timer: asyncio.TimerHandle | None = None
        """The timer that cancels the job DENIED_GRACE_S after its interrupts were denied."""
        self._has_entered = False
        self.has_begun = False
        """True if the job may have been called."""
        self._stops_at_next_wait = False
        self.slot_future: asyncio.Future[None] | None = None
        """The future of the slot that the job waits for. Each request has its own future."""

    def attach_task(self, task: "asyncio.Task[None]") -> None:
        self._task = task

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    async def wait_done(self, *, timeout_s: float | None = None) -> None:
        """Wait until the execution and its clean-up have ended, for at most `timeout_s`."""
        assert self._task is not None
        await asyncio.wait([self._task], timeout=timeout_s)

    def begin(self) -> None:
        """Mark the execution as begun, as the first step of its task.

        Raise CancelledError if the execution must already end.
        """
        self._has_entered = True
        if self.ending is not None:
            raise asyncio.CancelledError
        self.has_begun = True

    @contextmanager
    def open_call(self) -> Iterator[None]:
        """Cancel the current task if the job is canceled during the `with` block.

        The task waits in the event loop on behalf of the job's thread. Raise CancelledError if the
        job is already canceled: the thread may have made its call just before that, and nothing
        else would end the wait.
        """
        if self.is_cancelled:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            yield
        finally:
            self._calls.discard(task)

    def begin_wait(self) -> None:
        """Count a wait without a slot. The caller decrements `wait_count` after the wait."""
        self.wait_count += 1
        if self._stops_at_next_wait:
            self.end(Ending.SHUTDOWN)

    def note_stop(self) -> None:
        """Record whether the job waits now, at the moment when its process begins to stop.

        A job that is not waiting then may be the reason for the stop.
        """
        if self.was_waiting_at_stop is None:
            self.was_waiting_at_stop = not self.has_slot or self.open_interrupt_count > 0

    def stop_at_next_wait(self) -> None:
        """End the execution at its next wait, or at once if it waits now.

        The answer or the slot that it waits for would not arrive before the process stops.
        """
        self._stops_at_next_wait = True
        if self.open_interrupt_count or self.wait_count:
            self.end(Ending.SHUTDOWN)

    def end(self, ending: Ending) -> None:
        """Request that the job ends, for the reason `ending`, unless this is already requested.

        A second request would disturb the clean-up of the job. A cancel denies the job's open
        interrupts and gives the job DENIED_GRACE_S to act on the denials. A shutdown denies only
        the interrupts with `on_shutdown="deny"`; all others stay open. A lost claim overrides the
        other reasons.
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
        """Stop the timer that cancels the job, because the job has returned."""
        if self._grace_timer is not None:
            self._grace_timer.cancel()

    def note_ending(self) -> Ending | None:
        """Return why the job should end, or None. Record that the job has read the reason."""
        ending = self.ending  # Read once, because a plain function calls this in its own thread.
        self.has_seen_ending = self.has_seen_ending or ending is not None
        return ending

    def is_result_valid(self, ending: Ending | None, *, is_interrupted: bool) -> bool:
        """Return whether the value that the job has returned is the result of the run.

        `ending` is the reason why the job had to end at the time it returned. After a cancel the
        run ends canceled, whatever the job returns. A job that a shutdown interrupted may have
        returned early, so its run is executed again.
        """
        if ending is None:
            return self.ending is not Ending.LOST
        return ending is Ending.SHUTDOWN and not is_interrupted

    def _cancel(self) -> None:
        self.is_cancelled = True
        assert self._task is not None
        if self._has_entered:  # A task that is canceled before its first step never runs.
            self._task.cancel()
        for task in self._calls:
            task.cancel()

    def grant_slot(self) -> None:
        if self.slot_future is not None and not self.slot_future.done():
            self.slot_future.set_result(None)

    def expect_slot(self) -> "asyncio.Future[None]":
        """Return a future for a slot.

        Call this before the slot is requested, because the request may be granted at once.
        """
        self.slot_future = asyncio.get_running_loop().create_future()
        return self.slot_future
