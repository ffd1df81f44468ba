"""The worker registry, and calls to workers: choose a worker, call it, and cancel the call."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from headway.core.command.flow.register_worker import RecordHeartbeat, RegisterWorker
from headway.core.document import decode_document, replace_unstorable
from headway.core.errors import InfrastructureError, InvalidInput
from headway.core.flow.engine.effects import CallService
from headway.core.flow.engine.inputs import (
    Answered,
    CalleeUnavailable,
    CallOutcome,
    Failed,
    WorkerRef,
)
from headway.core.flow.engine.records import encode_json
from headway.core.ids import SECOND_US, Instant, RunId, add_seconds
from headway.core.secret import reveal_text
from headway.core.worker.saved_worker import TTL_S, LiveWorker, choose_worker, is_alive
from headway.core.worker.worker_protocol import (
    CALL_BYTE_COUNT_MAX,
    CALL_ID_HEADER,
    DRAINING,
    GENERATION_HEADER,
    PROGRESS_LINE_BYTE_COUNT_MAX,
)
from headway.ports.store import Store
from headway.ports.workers import (
    InvalidWorkerResponse,
    WorkerCallFailed,
    WorkerClient,
    WorkerConnectFailed,
    WorkerReader,
)
from headway.services.flow.flow_clock import FlowClock
from headway.trace import open_client_span, trace_headers

CALL_TIMEOUT_S: Final = 300.0
"""The time limit of a call whose node has no time limit."""
CANCEL_TIMEOUT_S: Final = 1.0
REGISTRY_MAX_AGE_S: Final = 1.0
"""How long a read of the registry is reused. A slightly outdated load does no harm."""
NO_WORKER: Final = "no worker"
SKIPPED_COUNT_MAX: Final = 100
"""The maximum number of unreachable workers that one call tries."""
TURN_COUNT_MAX: Final = 1_000
"""The maximum number of services whose round-robin position is stored."""
ReportProgress = Callable[[dict[str, Any]], None]


class HeldCall(NamedTuple):
    """A call that a worker is executing for this process."""

    run_id: RunId
    service: str
    called_at: Instant


class NotBegun(NamedTuple):
    """The outcome of a call to a worker that is gone or draining and has done nothing.

    Another worker may be called instead.
    """

    failure: Failed


class Workers:
    """The registry of workers, and the client that calls them."""

    def __init__(
        self,
        store: Store,
        reader: WorkerReader,
        clock: FlowClock,
        *,
        make_client: Callable[[], WorkerClient],
    ) -> None:
        """Create the registry. `make_client` is called before the first call to a worker."""
        self._store = store
        self._reader = reader
        self._make_client = make_client
        self._opened_client: WorkerClient | None = None
        self._clock = clock
        self._cached_workers: Sequence[LiveWorker] = ()
        self._read_at_s = float("-inf")
        self._refresh_lock = asyncio.Lock()
        self._held: defaultdict[str, list[HeldCall]] = defaultdict(list)
        """The calls that each worker is executing for this process."""
        self._turns: dict[str, int] = {}
        """How many round-robin choices each service has had."""

    # The registry.

    async def register(self, worker_id: str, url: str, services: Sequence[str]) -> None:
        """Register a worker. Raise InvalidInput if its data is invalid."""
        await self._store.apply(RegisterWorker(id=worker_id, url=url, services=tuple(services)))
        self._read_at_s = float("-inf")

    async def record_heartbeat(self, worker_id: str, load: int) -> bool:
        """Record a heartbeat. Return False if the worker is unknown and must register first."""
        return await self._store.apply(RecordHeartbeat(id=worker_id, load=load))

    async def list(self, *, service: str | None = None, ttl_s: float = TTL_S) -> list[LiveWorker]:
        """Return the workers with a heartbeat in the last `ttl_s` seconds, least load first.

        With `service`, return only workers that offer it.
        """
        now = self._clock.now()
        alive = [
            worker
            for worker in await self._reader.workers(
                heartbeat_since=add_seconds(now, seconds=-ttl_s)
            )
            if service is None or service in worker.services
        ]
        return sorted(alive, key=lambda worker: (worker.load, worker.id))

    def is_alive(self, worker: LiveWorker) -> bool:
        return is_alive(worker.heartbeat_at, self._clock.now())

    def calls_of(self, worker_id: str) -> Sequence[HeldCall]:
        """Return the calls that this process has in flight at a worker.

        Calls of other processes are not included.
        """
        return tuple(self._held.get(worker_id, ()))

    async def read_offered_services(self) -> Collection[str]:
        return {service for worker in await self.list() for service in worker.services}

    async def read_recent_services(self) -> frozenset[str]:
        """Return the services that live workers offer. The result may be about a second old."""
        await self._refresh(newer_than_s=time.monotonic() - REGISTRY_MAX_AGE_S)
        alive = [worker for worker in self._cached_workers if self.is_alive(worker)]
        return frozenset(service for worker in alive for service in worker.services)

    async def filter_offered(self, services: Collection[str]) -> frozenset[str]:
        """Return the subset of `services` that live workers offer.

        The result may be about a second old.
        """
        return (await self.read_recent_services()).intersection(services)

    # Calls.

    async def call(
        self,
        command: CallService,
        *,
        run_id: RunId,
        generation: int,
        report_progress: ReportProgress,
    ) -> CallOutcome:
        """Call one live worker that offers the service, and return the outcome.

        Skip workers that are gone or draining, because they have done nothing. Return
        CalleeUnavailable if no worker is left. `report_progress` receives the worker's progress. If
        this call is canceled, the worker is notified. That delays the cancellation only briefly.
        """
        unavailable = CalleeUnavailable(command.call_id, NO_WORKER)
        for _ in range(SKIPPED_COUNT_MAX):
            try:
                chosen = await self._choose(command)
            except InfrastructureError as error:
                return CalleeUnavailable(command.call_id, f"{NO_WORKER}: {error}")
            if chosen is None:
                break
            answer = await self._call(chosen, command, run_id, generation, report_progress)
            command = command._replace(excluded=(*command.excluded, chosen.id))
            if isinstance(answer, Answered):
                return answer
            if isinstance(answer, Failed):
                if answer.is_final or not command.may_try_another_worker:
                    return answer  # No other worker would be called.
                return answer._replace(is_last_worker=not await self._has_another(command))
            # The error of a worker that was called before is more useful than a failed connection.
            if command.attempt == 1:
                unavailable = CalleeUnavailable(
                    command.call_id, answer.failure.error, answer.failure.worker
                )
        return unavailable

    async def _call(
        self,
        chosen: LiveWorker,
        command: CallService,
        run_id: RunId,
        generation: int,
        report_progress: ReportProgress,
    ) -> Answered | Failed | NotBegun:
        call_id = f"{run_id}.{command.call_id}"
        about = {"run_id": run_id, "call_id": call_id, "worker_id": chosen.id}
        held = HeldCall(run_id, command.service, self._clock.now())
        with (
            open_client_span(f"call {command.service}", about) as span,
            self._track_call(chosen.id, held),
        ):
            answer = await self._send_call(chosen, command, call_id, generation, report_progress)
            failure = answer.failure if isinstance(answer, NotBegun) else answer
            if isinstance(failure, Failed):
                span.fail(failure.error)
        return answer

    @contextmanager
    def _track_call(self, worker_id: str, call: HeldCall) -> Iterator[None]:
        self._held[worker_id].append(call)
        try:
            yield
        finally:
            self._held[worker_id].remove(call)
            if not self._held[worker_id]:
                del self._held[worker_id]

    async def _send_call(
        self,
        chosen: LiveWorker,
        command: CallService,
        call_id: str,
        generation: int,
        report_progress: ReportProgress,
    ) -> Answered | Failed | NotBegun:
        worker = WorkerRef(chosen.id, chosen.url)
        headers = {CALL_ID_HEADER: call_id, GENERATION_HEADER: str(generation)}
        payload = encode_json({"input": command.input, "params": dict(command.params)})
        body = reveal_text(payload).encode()
        if len(body) > CALL_BYTE_COUNT_MAX:
            problem = f"is {len(body):,} bytes; the limit is {CALL_BYTE_COUNT_MAX:,}"
            return Failed(command.call_id, f"too_large: the call {problem}", is_final=True)
        try:
            status, answer = await self._client.post(
                f"{chosen.url}/exec/{quote(command.service, safe='')}",
                body,
                headers=headers | trace_headers(),
                timeout_s=self._timeout_s(command),
                on_line=lambda line: _report_if_progress(line, report_progress),
            )
        except WorkerCallFailed as error:
            kind = "bad_answer" if isinstance(error, InvalidWorkerResponse) else "unreachable"
            # The message may quote bytes from the worker that are not storable as text.
            failure = Failed(command.call_id, replace_unstorable(f"{kind}: {error}"), worker)
            return NotBegun(failure) if isinstance(error, WorkerConnectFailed) else failure
        except asyncio.CancelledError:
            await self._cancel(chosen, call_id, headers)
            raise
        return _parse_outcome(command.call_id, status, answer, worker)

    @property
    def _client(self) -> WorkerClient:
        if self._opened_client is None:
            self._opened_client = self._make_client()
        return self._opened_client

    async def close(self) -> None:
        if self._opened_client is not None:
            await self._opened_client.close()

    async def _choose(self, command: CallService) -> LiveWorker | None:
        now_s = time.monotonic()
        await self._refresh(newer_than_s=now_s - REGISTRY_MAX_AGE_S)
        chosen = self._choose_cached(command)
        if chosen is None and self._read_at_s < now_s:  # A worker may have registered since.
            await self._refresh(newer_than_s=now_s)
            chosen = self._choose_cached(command)
        return chosen

    async def _has_another(self, command: CallService) -> bool:
        """Return whether a live worker that is not excluded offers the service.

        The registry may be about a second old, because one read serves many calls that fail at
        once. Return True if the registry cannot be read: the next attempt then decides.
        """
        try:
            await self._refresh(newer_than_s=time.monotonic() - REGISTRY_MAX_AGE_S)
        except InfrastructureError:
            return True
        now = self._clock.now()
        return (
            choose_worker(self._cached_workers, command.service, now=now, excluded=command.excluded)
            is not None
        )

    async def _refresh(self, *, newer_than_s: float) -> None:
        """Read the registry, unless it was read after `newer_than_s`.

        Concurrent callers share one read.
        """
        if self._read_at_s > newer_than_s:
            return
        async with self._refresh_lock:
            if self._read_at_s <= newer_than_s:
                read_at_s = time.monotonic()
                since = add_seconds(self._clock.now(), seconds=-TTL_S)
                self._cached_workers = await self._reader.workers(heartbeat_since=since)
                self._read_at_s = read_at_s

    def _choose_cached(self, command: CallService) -> LiveWorker | None:
        return choose_worker(
            self._cached_workers,
            command.service,
            now=self._clock.now(),
            excluded=command.excluded,
            prefers_least_load=command.prefers_least_load,
            in_flight_counts={worker_id: len(calls) for worker_id, calls in self._held.items()},
            turn=0 if command.prefers_least_load else self._take_turn(command.service),
        )

    def _take_turn(self, service: str) -> int:
        """Return the next round-robin position of a service.

        Each service has its own position: with a shared position, two services that are called
        alternately would each always get the same worker.
        """
        turn = self._turns.get(service, 0)
        if turn == 0 and len(self._turns) >= TURN_COUNT_MAX:
            self._turns.clear()
        self._turns[service] = turn + 1
        return turn

    def _timeout_s(self, command: CallService) -> float:
        if command.deadline_at is None:
            return CALL_TIMEOUT_S
        # The flow engine enforces the limit of the node. This later limit is a safeguard.
        return max(0.0, (command.deadline_at - self._clock.now()) / SECOND_US) + CANCEL_TIMEOUT_S

    async def _cancel(self, worker: LiveWorker, call_id: str, headers: dict[str, str]) -> None:
        """Notify a worker that its call is canceled. Errors are ignored.

        The notification is optional, because the connection is already closed. The generation
        header identifies the caller, because the next claim repeats the call under the same id.
        """
        with suppress(WorkerCallFailed):
            await self._client.post(
                f"{worker.url}/cancel/{quote(call_id, safe='')}",
                b"{}",
                headers=headers,
                timeout_s=CANCEL_TIMEOUT_S,
            )


def _report_if_progress(line: bytes, report_progress: Callable[[dict[str, Any]], None]) -> bool:
    """Report a line of a response if it is progress. Return False if it is not progress."""
    try:
        document: Any = decode_document(line.decode(), field="progress")
    except (InvalidInput, UnicodeDecodeError):
        return False
    if not isinstance(document, dict) or not isinstance(document.get("progress"), dict):
        return False
    if len(line) <= PROGRESS_LINE_BYTE_COUNT_MAX:  # Longer progress is dropped.
        report_progress(document["progress"])
    return True


def _parse_outcome(
    call_id: str, status: int, answer: bytes, worker: WorkerRef
) -> Answered | Failed | NotBegun:
    """Return the outcome of a call, from the body of the worker's response.

    The HTTP status matters only if the body is unreadable or the worker is draining.
    """
    try:
        document: Any = decode_document(answer.decode(), field="answer")
    except (InvalidInput, UnicodeDecodeError) as error:
        return Failed(call_id, f"bad_answer: HTTP {status}, {error}", worker)
    if not isinstance(document, dict):
        return Failed(call_id, f"bad_answer: HTTP {status}, not an object", worker)
    reported_error = document.get("error")
    if reported_error in (None, ""):
        return Answered(call_id, document.get("result"), worker)
    text = reported_error if isinstance(reported_error, str) else json.dumps(reported_error)
    failure = Failed(call_id, text, worker)
    return NotBegun(failure) if (status, text) == (503, DRAINING) else failure
