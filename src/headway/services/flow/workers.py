"""Calls to workers: one is chosen, asked, and told if nobody waits for its answer any more."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from headway.core.command.flow.register_worker import HearWorker, RegisterWorker
from headway.core.document import decode_document, storable
from headway.core.errors import InfrastructureError, InvalidInput
from headway.core.flow.engine.effects import CallService
from headway.core.flow.engine.inputs import Answered, Ended, Failed, Untaken, Worker
from headway.core.flow.engine.records import encode
from headway.core.ids import SECOND, Instant, RunId, later
from headway.core.secret import opened_text
from headway.core.worker.saved_worker import TTL_S, LiveWorker, choose, is_alive
from headway.core.worker.worker_protocol import (
    CALL_BYTE_COUNT_MAX,
    CALL_ID_HEADER,
    DRAINING,
    GENERATION_HEADER,
    PROGRESS_LINE_BYTE_COUNT_MAX,
)
from headway.ports.store import Store
from headway.ports.worker_client import (
    WorkerAnswerUnusable,
    WorkerClient,
    WorkerNotReached,
    WorkerUnreachable,
)
from headway.ports.worker_reader import WorkerReader
from headway.services.flow.flow_clock import FlowClock
from headway.trace import inner_span, trace_headers

CALL_TIMEOUT_S: Final = 300.0
"""For a call whose node does not say how long it may take."""
CANCEL_TIMEOUT_S: Final = 1.0
REGISTRY_KEPT_S: Final = 1.0
"""For so long the registry is not read again; a load that is a little old does no harm."""
NO_WORKER: Final = "no worker"
PASSED_OVER_COUNT_MAX: Final = 100
"""So many workers may turn out to be gone before a call is given up."""
TURN_COUNT_MAX: Final = 1_000
"""Of so many services it is known whose turn it is."""
Tell = Callable[[dict[str, Any]], None]


class HeldCall(NamedTuple):
    """A call that a worker is at work on."""

    run_id: RunId
    service: str
    called_at: Instant


class NotBegun(NamedTuple):
    """The worker is gone, or leaves: nothing was done, and another may be asked instead."""

    failed: Failed


class Workers:
    """The registry, and the way to those who are in it."""

    def __init__(
        self,
        store: Store,
        reader: WorkerReader,
        clock: FlowClock,
        *,
        make_client: Callable[[], WorkerClient],
    ) -> None:
        """`make_client` is called when the first worker is."""
        self._store = store
        self._reader = reader
        self._make_client = make_client
        self._made: WorkerClient | None = None
        self._clock = clock
        self._known: Sequence[LiveWorker] = ()
        self._read_at_s = float("-inf")
        self._looking = asyncio.Lock()
        self._held: defaultdict[str, list[HeldCall]] = defaultdict(list)
        """What each worker is at work on for this program."""
        self._turns: dict[str, int] = {}
        """How often each service was called at one after the other."""

    # The registry.

    async def register(self, worker_id: str, url: str, services: Sequence[str]) -> None:
        """InvalidInput when that cannot be a worker."""
        await self._store.apply(RegisterWorker(id=worker_id, url=url, services=tuple(services)))
        self._read_at_s = float("-inf")

    async def heard(self, worker_id: str, load: int) -> bool:
        """False: nobody knows it; it has to register first."""
        return await self._store.apply(HearWorker(id=worker_id, load=load))

    async def list(self, *, service: str | None = None, ttl_s: float = TTL_S) -> list[LiveWorker]:
        """Those that were heard of within `ttl_s`, the least load first."""
        now = self._clock.now()
        alive = [
            one
            for one in await self._reader.workers(heard_since=later(now, seconds=-ttl_s))
            if service is None or service in one.services
        ]
        return sorted(alive, key=lambda one: (one.load, one.id))

    def is_alive(self, worker: LiveWorker) -> bool:
        return is_alive(worker.heartbeat_at, self._clock.now())

    def calls_of(self, worker_id: str) -> Sequence[HeldCall]:
        """What this program waits for from it; others may wait for more."""
        return tuple(self._held.get(worker_id, ()))

    async def offered(self) -> Collection[str]:
        return {service for one in await self.list() for service in one.services}

    async def offered_lately(self) -> frozenset[str]:
        """Return the services that live workers offer, as of at most about a second ago."""
        await self._look(unless_since_s=time.monotonic() - REGISTRY_KEPT_S)
        alive = [one for one in self._known if self.is_alive(one)]
        return frozenset(service for one in alive for service in one.services)

    async def offered_of(self, services: Collection[str]) -> frozenset[str]:
        """Return those of `services` that a live worker offers, as of about a second ago."""
        return (await self.offered_lately()).intersection(services)

    # Calls.

    async def call(
        self,
        command: CallService,
        *,
        run_id: RunId,
        generation: int,
        tell: Tell,
    ) -> Ended:
        """Call one live worker that offers the service, and return the outcome.

        Skip workers that are gone or are leaving, because they have done nothing. Return Untaken if
        none is left. `tell` receives the worker's progress. If this is cancelled, the worker is
        notified, with only a short wait.
        """
        untaken = Untaken(command.call_id, NO_WORKER)
        for _ in range(PASSED_OVER_COUNT_MAX):
            try:
                chosen = await self._choose(command)
            except InfrastructureError as error:
                return Untaken(command.call_id, f"{NO_WORKER}: {error}")
            if chosen is None:
                break
            answer = await self._call(chosen, command, run_id, generation, tell)
            command = command._replace(excluded=(*command.excluded, chosen.id))
            if isinstance(answer, Answered):
                return answer
            if isinstance(answer, Failed):
                if answer.is_final or not command.may_ask_another:
                    return answer  # No other worker is called in any case.
                return answer._replace(is_last=not await self._has_another(command))
            # The error of a worker that was called before is more useful than a failed connection.
            if command.attempt == 1:
                untaken = Untaken(command.call_id, answer.failed.error, answer.failed.worker)
        return untaken

    async def _call(
        self,
        chosen: LiveWorker,
        command: CallService,
        run_id: RunId,
        generation: int,
        tell: Tell,
    ) -> Answered | Failed | NotBegun:
        call_id = f"{run_id}.{command.call_id}"
        about = {"run_id": run_id, "call_id": call_id, "worker_id": chosen.id}
        held = HeldCall(run_id, command.service, self._clock.now())
        with inner_span(f"call {command.service}", about) as span, self._holding(chosen.id, held):
            answer = await self._ask(chosen, command, call_id, generation, tell)
            failed = answer.failed if isinstance(answer, NotBegun) else answer
            if isinstance(failed, Failed):
                span.fail(failed.error)
        return answer

    @contextmanager
    def _holding(self, worker_id: str, call: HeldCall) -> Iterator[None]:
        self._held[worker_id].append(call)
        try:
            yield
        finally:
            self._held[worker_id].remove(call)
            if not self._held[worker_id]:
                del self._held[worker_id]

    async def _ask(
        self, chosen: LiveWorker, command: CallService, call_id: str, generation: int, tell: Tell
    ) -> Answered | Failed | NotBegun:
        worker = Worker(chosen.id, chosen.url)
        headers = {CALL_ID_HEADER: call_id, GENERATION_HEADER: str(generation)}
        said = encode({"input": command.input, "params": dict(command.params)})
        body = opened_text(said).encode()
        if len(body) > CALL_BYTE_COUNT_MAX:
            problem = f"is {len(body):,} bytes; the limit is {CALL_BYTE_COUNT_MAX:,}"
            return Failed(command.call_id, f"too_large: the call {problem}", is_final=True)
        try:
            status, answer = await self._client.post(
                f"{chosen.url}/exec/{quote(command.service, safe='')}",
                body,
                headers=headers | trace_headers(),
                timeout_s=self._left_s(command),
                hear=lambda line: _is_progress(line, tell),
            )
        except WorkerUnreachable as error:
            kind = "bad_answer" if isinstance(error, WorkerAnswerUnusable) else "unreachable"
            # It may repeat what the worker has sent, and that may be no text at all.
            failed = Failed(command.call_id, storable(f"{kind}: {error}"), worker)
            return NotBegun(failed) if isinstance(error, WorkerNotReached) else failed
        except asyncio.CancelledError:
            await self._cancel(chosen, call_id, headers)
            raise
        return _outcome(command.call_id, status, answer, worker)

    @property
    def _client(self) -> WorkerClient:
        if self._made is None:
            self._made = self._make_client()
        return self._made

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()

    async def _choose(self, command: CallService) -> LiveWorker | None:
        now_s = time.monotonic()
        await self._look(unless_since_s=now_s - REGISTRY_KEPT_S)
        chosen = self._chosen(command)
        if chosen is None and self._read_at_s < now_s:  # Somebody may have come since.
            await self._look(unless_since_s=now_s)
            chosen = self._chosen(command)
        return chosen

    async def _has_another(self, command: CallService) -> bool:
        """Return whether a live worker that is not excluded offers the service.

        The registry may be about a second old: one read serves many calls that fail at once.
        Return True if it cannot be read: the next attempt then decides.
        """
        try:
            await self._look(unless_since_s=time.monotonic() - REGISTRY_KEPT_S)
        except InfrastructureError:
            return True
        now = self._clock.now()
        return choose(self._known, command.service, now=now, excluded=command.excluded) is not None

    async def _look(self, *, unless_since_s: float) -> None:
        """One looks for all who want to know."""
        if self._read_at_s > unless_since_s:
            return
        async with self._looking:
            if self._read_at_s <= unless_since_s:
                looked_at_s = time.monotonic()
                since = later(self._clock.now(), seconds=-TTL_S)
                self._known = await self._reader.workers(heard_since=since)
                self._read_at_s = looked_at_s

    def _chosen(self, command: CallService) -> LiveWorker | None:
        return choose(
            self._known,
            command.service,
            now=self._clock.now(),
            excluded=command.excluded,
            is_weighted=command.is_weighted,
            busy={worker_id: len(calls) for worker_id, calls in self._held.items()},
            turn=0 if command.is_weighted else self._turn(command.service),
        )

    def _turn(self, service: str) -> int:
        """Of its own for each service, or two in alternation would each stay with one worker."""
        turn = self._turns.get(service, 0)
        if turn == 0 and len(self._turns) >= TURN_COUNT_MAX:
            self._turns.clear()
        self._turns[service] = turn + 1
        return turn

    def _left_s(self, command: CallService) -> float:
        if command.due_at is None:
            return CALL_TIMEOUT_S
        # The node's own limit is the engine's affair: this one only comes after it.
        return max(0.0, (command.due_at - self._clock.now()) / SECOND) + CANCEL_TIMEOUT_S

    async def _cancel(self, worker: LiveWorker, call_id: str, headers: dict[str, str]) -> None:
        """A courtesy: the connection is closed already, and nobody listens to it any more.

        It says whose call it means: the next claim makes the same call under the same id.
        """
        with suppress(WorkerUnreachable):
            await self._client.post(
                f"{worker.url}/cancel/{quote(call_id, safe='')}",
                b"{}",
                headers=headers,
                timeout_s=CANCEL_TIMEOUT_S,
            )


def _is_progress(line: bytes, tell: Callable[[dict[str, Any]], None]) -> bool:
    """Whether a line of an answer tells of progress, which is then told."""
    try:
        said: Any = decode_document(line.decode(), place="progress")
    except (InvalidInput, UnicodeDecodeError):
        return False
    if not isinstance(said, dict) or not isinstance(said.get("progress"), dict):
        return False
    if len(line) <= PROGRESS_LINE_BYTE_COUNT_MAX:  # No harm to lose what nobody would read.
        tell(said["progress"])
    return True


def _outcome(
    call_id: str, status: int, answer: bytes, worker: Worker
) -> Answered | Failed | NotBegun:
    """What the body says; the HTTP status is only told when the body cannot be read."""
    try:
        said: Any = decode_document(answer.decode(), place="answer")
    except (InvalidInput, UnicodeDecodeError) as error:
        return Failed(call_id, f"bad_answer: HTTP {status}, {error}", worker)
    if not isinstance(said, dict):
        return Failed(call_id, f"bad_answer: HTTP {status}, not an object", worker)
    error_said = said.get("error")
    if error_said in (None, ""):
        return Answered(call_id, said.get("result"), worker)
    text = error_said if isinstance(error_said, str) else json.dumps(error_said)
    failed = Failed(call_id, text, worker)
    return NotBegun(failed) if (status, text) == (503, DRAINING) else failed
