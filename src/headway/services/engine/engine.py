"""The engine of one process: it claims runs when slots are free, and executes them.

Events that this process or others commit make the engine react at once. Polling makes it reliable:
a lost hint only delays the reaction until the next poll.

An engine registers as an instance, with a lease in the database. The writer's thread renews the
lease every third of `lease_ttl_s`, also while a job blocks the event loop. Each renewal counts from
the moment it was sent: until `lease_ttl_s` after that moment the engine may act as the instance.
This is the trust window. The database counts the same time from its own clock, after the renewal
has arrived, so the window always closes before another instance may declare this one dead and take
over its runs.

When the window closes without a renewal, or the database reports that the instance was declared
dead, the engine ends all executions as LOST without writing their outcome, and registers again
under a new id. Claims that arrive after the window has closed are not executed; they are released
when the old instance is swept. The claim token always protects the database: a write under a stale
claim is refused. The trust window only limits how long a job may act outside the database at the
same time as its successor.
"""

import asyncio
import json
import os
import socket
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Final

from headway.core.command.admin.instance import (
    HandOver,
    RegisterInstance,
    RenewInstance,
    RetireInstance,
)
from headway.core.command.run.claim import ClaimedRun, InstanceLost
from headway.core.errors import InfrastructureError
from headway.core.ids import InstanceId, RunId
from headway.core.lease import trusted_until_s
from headway.core.run.events import Event, EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL
from headway.core.timeouts import DEFAULT_TIMEOUTS, Timeouts
from headway.log import event_log
from headway.ports.clock import Clock
from headway.ports.id_source import IdSource
from headway.ports.life_lock import LifeLock
from headway.ports.run_reader import HeldRun, RunReader
from headway.ports.store import Store
from headway.process.fork_guard import guard_loop
from headway.services.background_tasks import BackgroundTasks
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
from headway.services.retrying import retry_until_available
from headway.services.submit.job import Job

SWEEP_S: Final = 1.0
POLL_S: Final = 1.0
POLL_ALL_S: Final = 5.0
"""How often the rows of all runs that are executed here are read, in case a hint was lost.

The delay until a decision of another instance takes effect here therefore does not depend on the
lease. The rows are read more often only if the lease is very short.
"""
PRUNE_S: Final = 60.0
FILES_SWEEP_S: Final = 2.0
LEASE_CHECK_S: Final = 0.2
UNWIND_S: Final = 5.0
"""How long a stopping engine waits for canceled jobs to end."""
HELD_COUNT_MAX: Final = 100_000

log = event_log(__name__)


class Engine:
    """Claims and executes runs inside `async with engine.run()`.

    If a loop of the engine fails, the body is canceled and the error of the loop is raised.

    When the body has ended, the engine claims no more runs. Runs that are still executing have
    `stop_wait_s` to end, or no time if the body raised an error. After that time they are canceled
    and handed over to other instances.
    """

    def __init__(
        self,
        store: Store,
        reader: RunReader,
        ids: IdSource,
        clock: Clock,
        jobs: Mapping[str, Job],
        *,
        make_children: Callable[[Execution], Children],
        stop_wait_s: float,
        lease_ttl_s: float,
        life_lock: LifeLock,
        prune: Callable[[Callable[[], bool]], Awaitable[object]],
        discover_jobs: Callable[[], Awaitable[None]],
        output: Output,
        on_start: Callable[[Execution], None] | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        """Create an engine that is not started yet.

        `prune` removes expired rows until its argument returns True. `discover_jobs` registers jobs
        that this process can execute from now on, such as the job of flows. `life_lock` stays held
        when the engine ends; the caller releases it afterwards.
        """
        self._store, self._reader = store, reader
        self._ids, self._clock = ids, clock
        self._jobs, self._make_children = jobs, make_children
        self._stop_wait_s = stop_wait_s
        self._lease_ttl_s = lease_ttl_s
        self._timeouts = timeouts
        self._life_lock = life_lock
        self._prune, self._discover_jobs = prune, discover_jobs
        self._output = output
        self._on_start = on_start
        self._claimer = Claimer(store, reader, ids, jobs, on_answer=self._on_claimed)
        self._executing: dict[RunId, Execution] = {}
        """The latest execution of each run. An earlier, lost execution may still be ending."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_polled_at_s = float("-inf")
        self._unknown_claims: set[Claim] = set()
        self._failed_hand_overs: dict[Claim, HandOver] = {}
        """The commands that hand over crashed executions, until their claims are released."""
        self._waking_ids: set[RunId] = set()
        self._background = BackgroundTasks()
        self._is_shutting_down = False

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Claim and execute runs until the `async with` block ends."""
        guard_loop()
        await self._register()
        stop_listening = self._store.listen(self._on_events)
        try:
            await clean_locks(self._reader, self._life_lock)
            async with self._background:
                # Do not await before the body begins, so that no job starts before it.
                self._claimer.start()
                claiming = self._start_loops()
                wait_s = 0.0  # The wait if the body raises an error.
                try:
                    yield
                    wait_s = self._stop_wait_s
                finally:
                    try:
                        await self._stop(claiming, wait_s)
                    finally:  # Even if the wait is canceled, no execution continues.
                        self._end_executions()
        finally:
            stop_listening()
            try:  # Renew until all claims are released, so that no other instance sweeps them.
                await self._deregister()
            finally:
                self._stop_renewing()

    def _start_loops(self) -> asyncio.Task[None]:
        """Start all loops, and return the one that claims runs."""
        background = self._background
        claiming = background.start_loop(self._claimer.poll())
        background.repeat("sweep", self._sweep, every_s=SWEEP_S)
        background.repeat("decisions", self._poll_decisions, every_s=self._poll_interval_s)
        background.repeat(
            "prune", lambda: self._prune(background.stop_event.is_set), every_s=PRUNE_S
        )
        background.repeat("jobs", self._discover_jobs, every_s=POLL_S)
        background.repeat("files", self._output.sweep, every_s=FILES_SWEEP_S)
        background.repeat("lease", self._reregister_if_lost, every_s=LEASE_CHECK_S)
        return claiming

    async def wait_for_active(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` seconds for the runs that execute here now.

        Return whether all of them ended. This method never raises.
        """
        active = set(self._tasks)
        if active:
            await asyncio.wait(active, timeout=max(0.0, timeout_s))
        return all(task.done() for task in active)

    def note_stop(self) -> None:
        """Record for each execution whether it waits now. Call as soon as a stop is requested."""
        for execution in self._executing.values():
            execution.note_stop()

    async def _stop(self, claiming: asyncio.Task[None], wait_s: float) -> None:
        self.note_stop()
        self._claimer.stop()
        await asyncio.wait([claiming], timeout=UNWIND_S)
        claiming.cancel()  # Runs that it still claims are released with the others.
        self.note_stop()  # Again, for runs that were claimed in the meantime.
        for execution in list(self._executing.values()):
            execution.stop_at_next_wait()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=wait_s)
        self._end_executions()
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=UNWIND_S)
            if running:
                log.warning("jobs_abandoned", extra={"count": len(running)})

    def _end_executions(self) -> None:
        self._is_shutting_down = True  # The answer to a claim may still arrive.
        for execution in list(self._executing.values()):
            execution.end(Ending.SHUTDOWN)

    # Registration and lease.

    async def _register(self) -> None:
        """Register as a new instance, and start to renew its lease."""
        instance_id = self._ids.instance_id()
        sent_s = time.monotonic()
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
        self._claimer.instance_id = instance_id
        self._trusted_until_s = trusted_until_s(renewal_sent_s=sent_s, ttl_s=self._lease_ttl_s)
        self._stop_renewing = self._store.keep_lease(
            instance_id, ttl_s=self._lease_ttl_s, on_renewed=self._on_renewed
        )

    def _on_renewed(self, until_s: float | None) -> None:
        """Set the end of the trust window to `until_s`.

        Close the window if `until_s` is None, because the instance was declared dead. The writer's
        thread calls this.
        """
        self._trusted_until_s = float("-inf") if until_s is None else until_s

    async def _reregister_if_lost(self) -> None:
        if time.monotonic() < self._trusted_until_s:
            return
        log.warning("lease_lost", extra={"instance_id": self._instance_id})
        self._stop_renewing()
        for execution in list(self._executing.values()):
            execution.end(Ending.LOST)
        await retry_until_available(self._register)

    # Executions.

    def _on_claimed(
        self, instance_id: InstanceId, claimed: Sequence[ClaimedRun] | InstanceLost
    ) -> None:
        if isinstance(claimed, InstanceLost):
            if instance_id == self._instance_id:  # Else the engine has registered again.
                # Declared dead, or only expired because the clock was set: a renewal shows which.
                self._store.renew_lease()
            return
        if self._is_shutting_down:
            return  # Nothing would end new executions. Their claims are released later.
        if instance_id != self._instance_id or time.monotonic() >= self._trusted_until_s:
            return  # Outside the trust window. Others claim the runs when the lease has expired.
        for run in claimed:
            execution = self._executing.get(run.run_id)
            if execution is not None and execution.claim.token == run.token:
                execution.grant_slot()
            else:
                self._start(run)

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
                children=lambda: self._make_children(execution),
                output=self._output,
            )
        except Exception:  # A bug in headway. `_poll_all_runs` hands the run over.
            self._failed_hand_overs[execution.claim] = hand_over_command(execution)
            log.exception("execution_crashed", extra={"run_id": execution.claimed.run_id})
        except BaseException:
            self._failed_hand_overs[execution.claim] = hand_over_command(execution)
            raise
        finally:
            run_id = execution.claimed.run_id
            if self._executing.get(run_id) is execution:
                del self._executing[run_id]

    async def _release_claim(self, claim: Claim) -> None:
        """Hand over a run that this process does not execute, or whose job ignores cancellation."""
        # A run that was never executed counts as progressed: it cannot have caused a stop.
        hand_over = self._failed_hand_overs.get(claim, HandOver(claim, has_progressed=True))
        execution = self._executing.get(claim.run_id)
        if execution is not None and execution.claim == claim:
            hand_over = hand_over_command(execution)
        await release_claim(self._store, hand_over)

    # Loops.

    async def _sweep(self) -> None:
        upcoming = await sweep(
            self._store, self._reader, self._life_lock, own_instance_id=self._instance_id
        )
        timers = [timer for timer in upcoming if timer[1] not in self._waking_ids]
        if timers:
            self._waking_ids |= {run_id for _, run_id in timers}
            stop_event = self._background.stop_event
            self._background.start(
                wake_on_time(
                    self._store, timers, pending_ids=self._waking_ids, stop_event=stop_event
                )
            )

    @property
    def _poll_interval_s(self) -> float:
        return min(POLL_S, POLL_ALL_S / 2, self._lease_ttl_s / 6)

    async def _poll_decisions(self) -> None:
        """Read what other instances decided about the runs that execute here.

        This is needed if a hint was lost. Runs that wait for an answer are read every time, all
        others every POLL_ALL_S.
        """
        now_s = time.monotonic()
        poll_all_s = min(POLL_ALL_S, self._lease_ttl_s / 3)
        if now_s - self._all_polled_at_s + self._poll_interval_s > poll_all_s:
            self._all_polled_at_s = now_s
            await self._poll_all_runs()
        else:
            executions = self._executing.values()
            waiting = [execution for execution in executions if execution.open_interrupt_count]
            await self.poll_runs([execution.claim.run_id for execution in waiting])

    async def _poll_all_runs(self) -> None:
        executing = _by_claim(self._executing.values())
        held = await self._reader.held_runs(self._instance_id, limit=HELD_COUNT_MAX)
        self._notify_all(executing, held)
        # A run that this instance holds but does not execute belongs to a claim whose answer was
        # lost. Release it only when it is found twice, because the answer may still be in flight.
        executed = {execution.claim for execution in self._executing.values()}
        unknown = {run.claim for run in held} - executed
        for claim in unknown & self._unknown_claims:
            await self._release_claim(claim)
        self._unknown_claims = unknown
        claims = {run.claim for run in held}
        self._failed_hand_overs = {
            claim: command for claim, command in self._failed_hand_overs.items() if claim in claims
        }

    async def poll_runs(self, run_ids: Collection[RunId]) -> None:
        """Read these runs if they execute here, and notify their executions of changes."""
        executions = (self._executing.get(run_id) for run_id in run_ids)
        executing = _by_claim(execution for execution in executions if execution is not None)
        if executing:
            ids = [claim.run_id for claim in executing]
            held = await self._reader.filter_held_runs(self._instance_id, ids)
            self._notify_all(executing, held)

    def _notify_all(self, executing: "_ExecutionsByClaim", held: Sequence[HeldRun]) -> None:
        held_by_claim = {run.claim: run for run in held}
        for claim, (execution, awaited_slot) in executing.items():
            run = held_by_claim.get(claim)
            self._notify(execution, run)
            # The answer to a slot request may have been lost, so grant the slot found in the row.
            # A slot that was released since the read began is not the slot that is awaited.
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
            self._background.start(confirm_delivery(self._store, execution.claim))
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
        """Release all claims and retire the instance, so that it is not declared dead later."""
        try:
            # Commands are decided in order: after this one no claim of this instance is in flight,
            # and the claimer sends no other. The read below therefore finds every claimed run.
            await self._store.apply(
                RenewInstance(instance_id=self._instance_id, ttl_s=self._lease_ttl_s)
            )
            held = await self._reader.held_runs(self._instance_id, limit=HELD_COUNT_MAX)
            await asyncio.gather(*(self._release_claim(run.claim) for run in held))
            await self._store.apply(RetireInstance(self._instance_id))
        except InfrastructureError as error:  # Others sweep the runs when the lease has expired.
            log.warning("instance_deregistration_failed", extra={"reason": str(error)})


_ExecutionsByClaim = dict[Claim, tuple[Execution, "asyncio.Future[None] | None"]]


def _by_claim(executions: Iterable[Execution]) -> _ExecutionsByClaim:
    """Map each claim to its execution and the slot future that the execution waits for now.

    Call this before the runs are read.
    """
    return {execution.claim: (execution, execution.slot_future) for execution in executions}
