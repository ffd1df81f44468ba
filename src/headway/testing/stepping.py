"""A clock for tests of whole programs, which moves from one due event to the next.

Events that are due at different times happen in their order, however far a test moves the clock: a
job that sleeps for a minute three times has slept three times after `await clock.advance(180)`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Final

from headway.bootstrap import SqlStore
from headway.core.duration import check_seconds
from headway.core.ids import SECOND_US, Instant, add_seconds
from headway.services.blocking_calls import Threads
from headway.services.engine.sweep import BATCH_SIZE, sweep
from headway.testing.fake_clock import NOON
from headway.testing.locks import NO_LOCKS

IDLE_TURN_COUNT: Final = 50
"""The number of idle iterations of the event loop after which all tasks count as waiting.

An iteration is idle if no read, no write and no thread of a job is in flight.
"""
POLL_S: Final = 0.001


class SteppingClock:
    """A clock for `Headway(clock=…)` that moves only when the test moves it.

    It drives `ctx.sleep`, the time to answer `ctx.interrupt`, delays between retries, the timeouts
    of runs and queues, and schedules. Everything else that a job awaits takes real time.
    """

    def __init__(self, now: Instant = NOON) -> None:
        self._now = now
        self._store: SqlStore | None = None
        self._threads = Threads()
        self._timer_ids = count()
        self._timers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        """A heap of timers: when each is due, a tie-breaker, and the future to complete.

        A timer whose caller is gone is dropped when it is due.
        """

    def now(self) -> Instant:
        return self._now

    def monotonic_s(self) -> float:
        return self._now / SECOND_US

    async def sleep(self, seconds: float) -> None:
        await self._add_timer(seconds)

    @asynccontextmanager
    async def timeout(self, seconds: float) -> AsyncIterator[None]:
        loop, timer = asyncio.get_running_loop(), self._add_timer(seconds)
        async with asyncio.timeout(None) as limit:

            def expire(_: object) -> None:
                limit.reschedule(loop.time())

            timer.add_done_callback(expire)
            try:
                yield
            finally:
                timer.remove_done_callback(expire)
                timer.cancel()

    async def advance(self, seconds: float) -> Instant:
        """Move the clock by `seconds` and return the new time.

        Everything in headway that became due has happened, in order, when this returns. Work that a
        job does outside headway may still be running.
        """
        check_seconds(seconds, field="seconds")
        goal = add_seconds(self._now, seconds=seconds)
        await self._wait_until_idle()
        while (due_at := await self._next_due_at(goal)) is not None:
            self._now = due_at
            await self._fire_due_timers()
        self._now = goal
        await self._fire_due_timers()
        return goal

    def attach_store(self, store: SqlStore | None, threads: Threads | None = None) -> None:
        """Sweep `store` whenever the clock moves. None detaches the previous store.

        `threads` are the threads in which jobs write files. The clock waits until they are idle.
        `open_for_test` calls this method.
        """
        self._store = store
        self._threads = threads or Threads()

    def _add_timer(self, seconds: float) -> "asyncio.Future[None]":
        timer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds <= 0:
            timer.set_result(None)
        else:
            heappush(
                self._timers,
                (add_seconds(self._now, seconds=seconds), next(self._timer_ids), timer),
            )
        return timer

    async def _next_due_at(self, goal: Instant) -> Instant | None:
        while self._timers and self._timers[0][2].done():
            heappop(self._timers)
        due = [due_at for due_at, _, _ in self._timers[:1]]
        if self._store is not None:
            runs = await self._store.runs.runs_due(goal, limit=BATCH_SIZE)
            due += [run.due_at for run in runs if run.due_at is not None and run.due_at > self._now]
        return min((due_at for due_at in due if due_at <= goal), default=None)

    async def _fire_due_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer = heappop(self._timers)
            if not timer.done():
                timer.set_result(None)
        if self._store is not None:
            await sweep(self._store, self._store.runs, NO_LOCKS)
        await self._wait_until_idle()

    async def _wait_until_idle(self) -> None:
        """Return when all tasks wait for the clock, or for something outside headway."""
        turn_count = 0
        while turn_count < IDLE_TURN_COUNT:
            if self._threads.is_idle and (self._store is None or self._store.is_idle):
                turn_count += 1
                await asyncio.sleep(0)
            else:
                turn_count = 0
                await asyncio.sleep(POLL_S)
