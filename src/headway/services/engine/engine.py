"""The engine of one process: it claims runs when there is room, and executes them.

Hints make it fast (of what this process and others commit), polling makes it certain. An instance
that is declared dead ends its work and begins anew under another id.
"""

import asyncio
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from headway.core.command.admin.instance import (
    HandOver,
    RegisterInstance,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.run.claim import ClaimedRun, InstanceLost
from headway.core.errors import InfrastructureError, StoreClosed
from headway.core.ids import InstanceId, RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.core.timeouts import DEFAULT_TIMEOUTS, Timeouts
from headway.forked import guard_loop
from headway.log import event_log
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.ports.life_lock import LifeLock
from headway.ports.run_reader import HeldRun, RunReader
from headway.ports.store import Store
from headway.services.context.child_runs import Children
from headway.services.context.execution import Ending, Execution
from headway.services.context.output_files import Output
from headway.services.engine.claimer import Claimer
from headway.services.engine.execute import (
    confirm_delivery,
    execute,
    hand_over_command,
    release_claim,
)
from headway.services.engine.sweep import clean_locks, sweep, wake_on_time
from headway.services.retrying import retry_until_available, wait_until_set
from headway.services.submit.job import Job

SWEEP_S: Final = 1.0
POLL_S: Final = 1.0
POLL_ALL_S: Final = 5.0
"""How often the rows of all runs that are executed here are read, in case a hint was lost.

The time until this process notices a decision of another instance therefore does not depend on the
lease. Only with a very short lease the rows are read more often.
"""
PRUNE_S: Final = 60.0
FILES_SWEEP_S: Final = 2.0
LEASE_CHECK_S: Final = 0.2
UNWIND_S: Final = 5.0
"""How long jobs that were told to end may take for it when the engine stops."""
HELD_COUNT_MAX: Final = 100_000

log = event_log(__name__)


class Engine:
    """Works inside `async with`. If it dies there, the body is cancelled, and its error raised.

    At the end of the body no more runs are claimed, and those at hand have `stop_wait_s` to end, or
    none after an error. Then they are cancelled and given up: others go on with them.
    """

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        ids: IdSource,
        clock: Clock,
        jobs: Mapping[str, Job],
        *,
        stop_wait_s: float,
        lease_ttl_s: float,
        life_lock: LifeLock,
        prune: Callable[[Callable[[], bool]], Awaitable[object]],
        discover_jobs: Callable[[], Awaitable[None]],
        output: Output,
        on_start: Callable[[Execution], None] | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        """`keep` removes what is over and old; `look_around` finds jobs that others have runs of.

        `life_lock` stays held when the engine ends: whoever gave it lets it go afterwards.
        """
        self._store = store
        self._reader = reader
        self._ids = ids
        self._clock = clock
        self._jobs = jobs
        self._stop_wait_s = stop_wait_s
        self._lease_ttl_s = lease_ttl_s
        self._timeouts = timeouts
        self._life_lock = life_lock
        self._prune = prune
        self._discover_jobs = discover_jobs
        self._output = output
        self._on_start = on_start
        self._claimer = Claimer(
            *(store, reader, ids, jobs),
            instance_id=lambda: self._instance_id,
            on_answer=self._on_claimed,
        )
        self._executing: dict[RunId, Execution] = {}
        """The latest of each run: one that was lost may live on beside it, and is told no more."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_polled_at_s = float("-inf")
        self._unknown_claims: set[Claim] = set()
        self._failed_hand_overs: dict[Claim, HandOver] = {}  # Executions that broke off.
        self._waking_ids: set[RunId] = set()
        self._has_stopped = asyncio.Event()
        self._is_shutting_down = False

    async def __aenter__(self) -> Self:
        guard_loop()
        await self._register()
        await clean_locks(self._reader, self._life_lock)
        self._stop_listening = self._store.listen(self._on_events)
        self._claimer.start()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._loops = [
            self._group.create_task(self._claimer.poll()),
            self._group.create_task(self._repeat(SWEEP_S, self._sweep)),
            self._group.create_task(self._repeat(self._poll_interval_s, self._poll_decisions)),
            self._group.create_task(
                self._repeat(PRUNE_S, lambda: self._prune(self._has_stopped.is_set))
            ),
            self._group.create_task(self._repeat(POLL_S, self._discover_jobs)),
            self._group.create_task(self._repeat(FILES_SWEEP_S, self._output.sweep)),
            self._group.create_task(self._repeat(LEASE_CHECK_S, self._reregister_if_lost)),
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        died_of: BaseException | None = None
        try:
            try:
                await self._stop(0.0 if error is not None else self._stop_wait_s)
            finally:  # Whoever will not wait any longer leaves nothing at work either.
                self._end_executions()
                await self._end_loops()
            if isinstance(error, asyncio.CancelledError):
                # It may come from the group itself, which then takes it back.
                await self._group.__aexit__(kind, error, traceback)
            else:  # What else the body raised is not the group's, which would only wrap it.
                await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as errors:
            died_of = _unwrap_group(errors)
        finally:
            self._stop_listening()
            try:  # It lives until it has let go of everything: none of it is a death.
                await self._deregister()
            finally:
                self._stop_renewing()
        if died_of is not None:
            raise died_of

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Whether all that is executed here now has ended in time. It never raises."""
        active = set(self._tasks)
        if active:
            await asyncio.wait(active, timeout=max(0.0, timeout_s))
        return all(task.done() for task in active)

    async def _end_loops(self) -> None:
        self._has_stopped.set()
        await asyncio.wait(self._loops, timeout=UNWIND_S)
        for loop in self._loops:
            loop.cancel()

    def note_stop(self) -> None:
        """Note that the program is about to stop. Call this as soon as that is known."""
        for execution in self._executing.values():
            execution.note_stop()

    async def _stop(self, wait_s: float) -> None:
        self.note_stop()
        self._claimer.stop()
        polling = self._loops[0]
        await asyncio.wait([polling], timeout=UNWIND_S)
        polling.cancel()  # What it may still have won is given up with the rest.
        self.note_stop()  # Those too that were claimed meanwhile.
        for execution in list(self._executing.values()):
            execution.stop_at_next_wait()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=wait_s)
        self._end_executions()
        if self._tasks:
            _, stubborn = await asyncio.wait(self._tasks, timeout=UNWIND_S)
            if stubborn:
                log.warning("jobs_left_behind", extra={"count": len(stubborn)})

    def _end_executions(self) -> None:
        self._is_shutting_down = True  # A claim may still be answered.
        for execution in list(self._executing.values()):
            execution.end(Ending.SHUTDOWN)

    # The lease.

    async def _register(self) -> None:
        """Begin a life as an instance that nobody knows yet."""
        instance_id = self._ids.instance_id()
        asked_at_s = time.monotonic()
        await self._store.apply(
            RegisterInstance(
                instance_id=instance_id,
                host=socket.gethostname(),
                pid=os.getpid(),
                ttl_s=self._lease_ttl_s,
                life_lock=self._life_lock.acquire(),
            )
        )
        self._instance_id: InstanceId = instance_id
        self._trusted_until_s = asked_at_s + self._lease_ttl_s
        self._stop_renewing = self._store.keep_lease(
            instance_id, ttl_s=self._lease_ttl_s, on_renewed=self._on_renewed
        )

    def _on_renewed(self, trusted_until_s: float | None) -> None:
        """Called in another thread."""
        self._trusted_until_s = float("-inf") if trusted_until_s is None else trusted_until_s

    async def _reregister_if_lost(self) -> None:
        if time.monotonic() < self._trusted_until_s:
            return
        log.warning("lease_lost", extra={"instance_id": self._instance_id})
        self._stop_renewing()
        for execution in list(self._executing.values()):
            execution.end(Ending.LOST)
        await retry_until_available(self._register)

    # The work.

    def _on_claimed(
        self, instance_id: InstanceId, claimed: Sequence[ClaimedRun] | InstanceLost
    ) -> None:
        if isinstance(claimed, InstanceLost):
            if instance_id == self._instance_id:  # Else it has begun anew meanwhile.
                # Dead, or only late because the clock was moved on: the renewal tells.
                self._store.renew_lease()
            return
        if self._is_shutting_down:
            return  # Nobody would end it. It is given up with the rest.
        if instance_id != self._instance_id or time.monotonic() >= self._trusted_until_s:
            return  # Too late to begin anything: others take them when the lease is over.
        for one in claimed:
            execution = self._executing.get(one.run_id)
            if execution is not None and execution.claim.token == one.token:
                execution.grant_slot()
            else:
                self._start(one)

    def _start(self, claimed: ClaimedRun) -> None:
        execution = self._executing[claimed.run_id] = Execution(claimed, self._timeouts)
        task = asyncio.create_task(self._execute(execution))
        execution.attach_task(task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._on_start is not None:
            self._on_start(execution)

    async def _execute(self, execution: Execution) -> None:
        try:
            job = self._jobs[execution.claimed.job]
            await execute(
                self._store,
                self._clock,
                job,
                execution,
                children=lambda: Children(execution, self._store, self._reader, self._jobs),
                output=self._output,
            )
        except Exception:  # Our own mistake: the run is freed when the lease is, and it is told.
            self._failed_hand_overs[execution.claim] = hand_over_command(execution)
            log.exception("execution_broke", extra={"run_id": execution.claimed.run_id})
        except BaseException:
            self._failed_hand_overs[execution.claim] = hand_over_command(execution)
            raise
        finally:
            run_id = execution.claimed.run_id
            if self._executing.get(run_id) is execution:
                del self._executing[run_id]

    async def _release_claim(self, claim: Claim) -> None:
        """Give up a run that is no longer executed here, or that does not end when asked to."""
        # A run that was never executed costs nothing.
        handed = self._failed_hand_overs.get(claim, HandOver(claim, has_progressed=True))
        execution = self._executing.get(claim.run_id)
        if execution is not None and execution.claim == claim:
            handed = hand_over_command(execution)
        await release_claim(self._store, handed)

    # The loops.

    async def _repeat(self, every_s: float, action: Callable[[], Awaitable[object]]) -> None:
        while not self._has_stopped.is_set():
            try:
                await action()
            except StoreClosed:  # Nothing can be done here any more.
                raise
            except InfrastructureError as error:
                log.warning("round_failed", extra={"reason": str(error)})
            except Exception:  # One round that breaks costs no more than itself.
                log.exception("round_broke")
            await wait_until_set(self._has_stopped, every_s)

    async def _sweep(self) -> None:
        soon = await sweep(
            self._store, self._reader, self._life_lock, own_instance_id=self._instance_id
        )
        fresh = [one for one in soon if one[1] not in self._waking_ids]
        if fresh:
            self._waking_ids |= {run_id for _, run_id in fresh}
            waking = wake_on_time(
                self._store, fresh, pending_ids=self._waking_ids, stop_event=self._has_stopped
            )
            self._group.create_task(waking)

    @property
    def _poll_interval_s(self) -> float:
        return min(POLL_S, POLL_ALL_S / 2, self._lease_ttl_s / 6)

    async def _poll_decisions(self) -> None:
        """Read the decisions of other instances about the runs here, in case a hint was lost.

        Runs that wait for a person are read every time, all others every LOOK_AT_ALL_S.
        """
        now_s = time.monotonic()
        look_at_all_s = min(POLL_ALL_S, self._lease_ttl_s / 3)
        if now_s - self._all_polled_at_s + self._poll_interval_s > look_at_all_s:
            self._all_polled_at_s = now_s
            await self._poll_all_runs()
        else:
            executing = self._executing.values()
            await self.poll_runs(
                [one.claim.run_id for one in executing if one.open_interrupt_count]
            )

    async def _poll_all_runs(self) -> None:
        mine = _by_claim(self._executing.values())
        held = await self._reader.runs_held_by(self._instance_id, limit=HELD_COUNT_MAX)
        self._notify_all(mine, held)
        # What we hold and nobody executes came of a claim whose answer was lost. Seen twice, it
        # is not one whose answer is only on its way.
        executed = {one.claim for one in self._executing.values()}
        unknown = {run.claim for run in held} - executed
        for claim in unknown & self._unknown_claims:
            await self._release_claim(claim)
        self._unknown_claims = unknown
        claims = {run.claim for run in held}
        self._failed_hand_overs = {
            claim: told for claim, told in self._failed_hand_overs.items() if claim in claims
        }

    async def poll_runs(self, run_ids: Collection[RunId]) -> None:
        """Tell those of these runs that are executed here what was decided about them."""
        executing = (self._executing.get(run_id) for run_id in run_ids)
        mine = _by_claim(one for one in executing if one is not None)
        if mine:
            asked = [claim.run_id for claim in mine]
            self._notify_all(mine, await self._reader.filter_held_runs(self._instance_id, asked))

    def _notify_all(self, mine: "_ExecutionsByClaim", held: Sequence[HeldRun]) -> None:
        found = {run.claim: run for run in held}
        for claim, (execution, awaited_slot) in mine.items():
            run = found.get(claim)
            self._notify(execution, run)
            # The answer to its claim may have been lost. But a slot that it has given back since
            # we asked is not the one that it waits for.
            has_slot = run is not None and run.slot is not None
            if has_slot and execution.slot_future is awaited_slot:
                execution.grant_slot()

    def _notify(self, execution: Execution, run: HeldRun | None) -> None:
        if execution.is_settling:
            return
        if run is None:
            execution.end(Ending.LOST)
        elif run.status is RunStatus.CANCELLING:
            self._deliver_cancel(execution)
        elif run.unread_count:
            execution.wakeup.set()

    def _deliver_cancel(self, execution: Execution) -> None:
        if execution.ending is None:
            self._group.create_task(confirm_delivery(self._store, execution.claim))
        execution.end(Ending.CANCELLED)

    # Hints.

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            execution = None if event.run_id is None else self._executing.get(event.run_id)
            if execution is not None:
                self._on_event(execution, event)

    def _on_event(self, execution: Execution, event: Event) -> None:
        if execution.is_settling:
            return
        if event.type == EventType.MESSAGE_POSTED:
            execution.wakeup.set()
        elif event.type == EventType.STATE_CHANGED:
            status = RunStatus(json.loads(event.payload)["to"])
            if status is RunStatus.CANCELLING:
                self._deliver_cancel(execution)
            elif status in TERMINAL:
                execution.end(Ending.LOST)

    async def _deregister(self) -> None:
        """Give up what is still held, and then the instance: a graceful stop is no death."""
        try:
            # Commands are decided in the order in which they came: a claim that was under way has
            # won by now what it could, and nobody asks for another.
            await self._store.apply(
                RenewInstance(instance_id=self._instance_id, ttl_s=self._lease_ttl_s)
            )
            held = await self._reader.runs_held_by(self._instance_id, limit=HELD_COUNT_MAX)
            await asyncio.gather(*(self._release_claim(run.claim) for run in held))
            await self._store.apply(RetireInstance(self._instance_id))
        except InfrastructureError as error:  # Others will find out when the lease has run out.
            log.warning("left_without_a_word", extra={"reason": str(error)})


_ExecutionsByClaim = dict[Claim, tuple[Execution, "asyncio.Future[None] | None"]]


def _by_claim(executions: Iterable[Execution]) -> _ExecutionsByClaim:
    """Each with the slot that it waits for, as of now: before the database is asked."""
    return {one.claim: (one, one.slot_future) for one in executions}


def _unwrap_group(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
