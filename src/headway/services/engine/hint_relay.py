"""Exchange hints between instances through a shared hint bus (Redis).

Hints only reduce latency. A cancel, a message or an answer is committed to the database first, and
then a hint for the run is published. The instance that executes the run receives the hint and reads
the database. A lost hint costs the time until the next poll. Runs shorter than REGISTER_DELAY_S are
never registered on the hint bus, because the registration would cost more than it saves.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from headway.core.command.run.inbox import ANSWER
from headway.core.errors import InfrastructureError, LeaseLost, RuntimeUnavailable
from headway.core.ids import RunId
from headway.core.run.events import Event, EventType
from headway.core.run.run import Claim
from headway.core.run.status import RunStatus
from headway.log import event_log
from headway.ports.hint_bus import Hint, HintBus
from headway.ports.run_reader import RunReader
from headway.ports.store import EventOrigin, Store
from headway.services.background_tasks import UNWIND_S, BackgroundTasks, run_round
from headway.services.context.execution import Ending, Execution
from headway.services.engine.key_lease import HeldLease
from headway.services.retrying import retry_until_available

REGISTER_DELAY_S: Final = 0.05
"""Runs that last longer than this are registered on the hint bus and receive hints."""
REGISTER_BATCH_S: Final = 0.01
PENDING_HINT_COUNT_MAX: Final = 10_000
WATCH_RETRY_S: Final = 5.0
"""How long to wait before the next attempt to listen for a run's hints, after an outage."""
_TO_CANCELLING: Final = f'"to":"{RunStatus.CANCELLING.value}"'
_ANSWER_KIND: Final = f'"kind":"{ANSWER}"'

log = event_log(__name__)


class HintRelay:
    """Relays hints inside `async with relay.run()`, which must enclose `engine.run()`.

    The lease of a key is therefore released only after its run has ended here, even when the
    process stops.
    """

    def __init__(
        self, hint_bus: HintBus, store: Store, runs: RunReader, *, lease_ttl_s: float
    ) -> None:
        self._hint_bus = hint_bus
        self._store = store
        self._runs = runs
        self._lease_ttl_s = lease_ttl_s
        self._started: deque[tuple[float, Execution]] = deque()
        self._started_event = asyncio.Event()
        self._pending_hints: dict[tuple[RunId, Hint], None] = {}
        self._pending_event = asyncio.Event()
        self._run_ids_to_poll: set[RunId] = set()
        self._poll_event = asyncio.Event()
        self._background = BackgroundTasks()
        self._hold_tasks: set[asyncio.Task[None]] = set()
        self.watched_run_ids: set[RunId] = set()
        """Runs whose hints are received from the hint bus."""

    def set_poll_runs(self, poll_runs: Callable[[Collection[RunId]], Awaitable[None]]) -> None:
        """Set the engine's function that reads decisions about runs from the database."""
        self._poll_runs = poll_runs

    def note_started(self, execution: Execution) -> None:
        """Schedule the registration of an execution that has just begun. The engine calls this."""
        register_at_s = asyncio.get_running_loop().time() + REGISTER_DELAY_S
        self._started.append((register_at_s, execution))
        self._started_event.set()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Relay hints until the `async with` block ends."""
        async with self._background:
            for loop in (self._register_started(), self._publish_pending(), self._poll_on_hints()):
                self._background.start_loop(loop)
            stop_listening = self._store.listen(self._on_events, origin=EventOrigin.OWN)
            try:
                yield
            finally:
                stop_listening()
                await self._end_holds()

    async def _end_holds(self) -> None:
        try:
            if self._hold_tasks:
                await asyncio.wait(self._hold_tasks, timeout=UNWIND_S)
        finally:
            for task in self._hold_tasks:
                task.cancel()

    # Executions of this instance.

    async def _register_started(self) -> None:
        loop = asyncio.get_running_loop()
        while True:  # Until it is canceled.
            await self._started_event.wait()
            self._started_event.clear()
            while self._started:
                left_s = self._started[0][0] - loop.time()
                await asyncio.sleep(max(left_s, REGISTER_BATCH_S))
                while self._started and self._started[0][0] <= loop.time():
                    _, execution = self._started.popleft()
                    if not execution.is_done:
                        hold = self._background.start(self._hold(execution))
                        self._hold_tasks.add(hold)
                        hold.add_done_callback(self._hold_tasks.discard)

    async def _hold(self, execution: Execution) -> None:
        """Until the execution ends, hold the lease of its key and receive the hints for its run."""
        lease = HeldLease(
            hint_bus=self._hint_bus,
            key=execution.claimed.key,
            claim=execution.claim,
            ttl_s=self._lease_ttl_s,
            is_claim_current=lambda: self._is_claim_current(execution.claim),
        )
        try:
            await self._register(execution)
            await lease.run(lambda: self._watch_hints(execution))
        except LeaseLost:
            log.warning("claim_lost", extra={"run_id": execution.claim.run_id})
            execution.end(Ending.LOST)
            await execution.wait_done()
        except Exception:  # A bug in headway. The run continues, and polling replaces its hints.
            log.exception("hint_relay_crashed", extra={"run_id": execution.claim.run_id})
        finally:
            with suppress(InfrastructureError):
                await self._hint_bus.release_lease(execution.claimed.key, execution.claim)

    async def _register(self, execution: Execution) -> None:
        claimed = execution.claimed
        fields = {"key": claimed.key, "run_id": claimed.run_id}
        try:
            holder = await self._hint_bus.acquire_lease(claimed.key, execution.claim)
        except RuntimeUnavailable as error:  # The renewals acquire the lease later.
            log.warning("run_registration_failed", extra=fields | {"reason": str(error)})
            return
        # The other holder has ended or is dead, because the database gave the key to this run.
        if holder is not None:
            log.info("runtime_lease_held_by_another", extra=fields | {"holder": holder})
        event = "run_started" if claimed.generation == 1 else "run_replaced"
        log.info(event, extra=fields | {"generation": claimed.generation})

    async def _watch_hints(self, execution: Execution) -> None:
        stop: Callable[[], None] | None = None
        try:
            while stop is None and not execution.is_done:
                with suppress(RuntimeUnavailable):
                    stop = await self._hint_bus.watch(
                        execution.claim.run_id, lambda hint: self._on_hint(execution, hint)
                    )
                if stop is None:
                    await execution.wait_done(timeout_s=min(WATCH_RETRY_S, self._lease_ttl_s / 3))
            # Hints published before this subscription are lost, so read the database once.
            self.watched_run_ids.add(execution.claim.run_id)
            self._on_hint(execution, Hint.RESYNC)
            await execution.wait_done()
        finally:
            self.watched_run_ids.discard(execution.claim.run_id)
            if stop is not None:
                stop()

    async def _is_claim_current(self, claim: Claim) -> bool:
        record = await retry_until_available(lambda: self._runs.run(claim.run_id))
        return record is not None and record.run.token == claim.token

    # Hints of other instances.

    def _on_hint(self, execution: Execution, hint: Hint) -> None:
        if hint in (Hint.CANCEL, Hint.RESYNC):
            self._run_ids_to_poll.add(execution.claim.run_id)
            self._poll_event.set()
        if hint is not Hint.CANCEL:
            execution.wakeup.set()

    async def _poll_on_hints(self) -> None:
        while True:  # Until it is canceled.
            await self._poll_event.wait()
            self._poll_event.clear()
            run_ids, self._run_ids_to_poll = self._run_ids_to_poll, set()
            # After a failure, the engine's next poll reads these runs.
            await run_round("hints", partial(self._poll_runs, run_ids))

    # Hints for other instances.

    def _on_events(self, events: Sequence[Event]) -> None:
        for event in events:
            hint = to_hint(event)
            if hint is not None and len(self._pending_hints) < PENDING_HINT_COUNT_MAX:
                assert event.run_id is not None
                self._pending_hints[event.run_id, hint] = None
                self._pending_event.set()

    async def _publish_pending(self) -> None:
        while True:  # Until it is canceled.
            await self._pending_event.wait()
            self._pending_event.clear()
            hints, self._pending_hints = self._pending_hints, {}
            await asyncio.gather(*(self._publish(run_id, hint) for run_id, hint in hints))

    async def _publish(self, run_id: RunId, hint: Hint) -> None:
        try:
            await self._hint_bus.publish_hint(run_id, hint)
        except InfrastructureError as error:
            log.debug("hint_lost", extra={"run_id": run_id, "reason": str(error)})


def to_hint(event: Event) -> Hint | None:
    """Return the hint that another instance needs after `event`, or None if it needs none."""
    if event.type == EventType.MESSAGE_POSTED:
        return Hint.ANSWER if _ANSWER_KIND in event.payload else Hint.MESSAGE
    if event.type == EventType.STATE_CHANGED and _TO_CANCELLING in event.payload:
        return Hint.CANCEL
    return None
