"""The commands that wait for the writer: put by the event loop, taken by the writer's thread."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from headway.adapters.sql.write.batch import PendingCommand
from headway.adapters.sql.write.instance_lease import Lease
from headway.core.command.documents import document_length
from headway.core.command.protocol import Command
from headway.core.errors import StoreClosed, StoreOverloaded
from headway.core.ids import InstanceId
from headway.forked import exit_if_forked, fork_mark

BATCH_COUNT_MAX: Final = 1_000
QUEUED_COUNT_MAX: Final = 100_000
BATCH_LENGTH_MAX: Final = 16 << 20

PiggybackSource = Callable[[Command[Any]], Sequence[Command[Any]]]


class CommandQueue:
    """Made and filled in one event loop, emptied in another, which is that of the writer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fork_mark = fork_mark()
        self._commands: deque[PendingCommand] = deque()
        self._deferred: deque[PendingCommand] = deque()
        """What is to be decided after everything else of its batch."""
        self._piggyback_source: PiggybackSource | None = None
        self._on_answer: Callable[[Command[Any], Any], None] = _ignore_answer
        self._lease: Lease | None = None
        self.lost_lease_count = -1  # The first one takes nobody's place.
        self._is_closing = False
        self._is_writer_waiting = False
        self._is_wake_scheduled = False

    def put(self, command: Command[Any]) -> "asyncio.Future[Any]":
        """The answer to come, once it is durable."""
        exit_if_forked(self._fork_mark)  # A forked child has no writer.
        if self._is_closing:
            raise StoreClosed
        if len(self._commands) >= QUEUED_COUNT_MAX:
            raise StoreOverloaded(len(self._commands))
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._commands.append(PendingCommand(command, answer))
        # Put before this look, as it is taken after the other's: so nobody goes without company.
        if self._piggyback_source is not None and not self._deferred:
            self._deferred.extend(map(self._create_piggyback, self._piggyback_source(command)))
        if self._is_writer_waiting and not self._is_wake_scheduled:
            # Once the loop has done what it is about to do: all that comes of it goes together.
            self._is_wake_scheduled = True
            self._loop.call_soon(self._wake_writer)
        return answer

    def keep_lease(
        self,
        instance_id: InstanceId,
        *,
        ttl_s: float,
        on_renewed: Callable[[float | None], None],
    ) -> Callable[[], None]:
        assert self._lease is None, "a writer serves one instance"
        self.lost_lease_count += 1
        lease = self._lease = Lease(
            instance_id, ttl_s=ttl_s, on_renewed=on_renewed, loop=self._loop
        )
        self._wake_writer()

        def end() -> None:
            lease.end()
            if self._lease is lease:
                self._lease = None

        return end

    def renew_lease(self) -> None:
        if self._lease is not None:
            self._lease.renew_now()
            self._wake_writer()

    def piggyback(
        self, source: PiggybackSource, on_answer: Callable[[Command[Any], Any], None]
    ) -> Callable[[], None]:
        assert self._piggyback_source is None, "a writer serves one instance"
        self._piggyback_source, self._on_answer = source, on_answer

        def end() -> None:
            self._piggyback_source = None

        return end

    def _create_piggyback(self, command: Command[Any]) -> PendingCommand:
        answer: asyncio.Future[Any] = self._loop.create_future()

        def told(answer: "asyncio.Future[Any]") -> None:
            if not answer.cancelled() and answer.exception() is None:
                self._on_answer(command, answer.result())

        answer.add_done_callback(told)
        return PendingCommand(command, answer)

    def close(self) -> None:
        """Nothing more is put; what waits is still taken."""
        self._is_closing = True
        self._wake_writer()

    @property
    def is_idle(self) -> bool:
        return self._is_writer_waiting and not self._commands and not self._deferred

    def _wake_writer(self) -> None:
        # Appended first, looked at second; the writer does it the other way round, so that one of
        # the two always sees the other.
        self._is_wake_scheduled = False
        if self._is_writer_waiting:
            self._is_writer_waiting = False
            self._writer_loop.call_soon_threadsafe(self._wake_event.set)

    # From here on: the writer's thread.

    def attach_writer(self) -> None:
        """To be called once, in the thread that takes."""
        self._writer_loop = asyncio.get_running_loop()
        self._wake_event = asyncio.Event()

    async def next_batch(self) -> list[PendingCommand]:
        """What waits, up to a limit; nothing only when the writer is to end."""
        self._queue_lease_renewal()
        while not (self._commands or self._deferred):
            if self._is_closing:
                return []
            self._wake_event.clear()
            self._is_writer_waiting = True
            if not (self._commands or self._deferred or self._is_closing):
                await self._wait_for_work()
            self._is_writer_waiting = False
            self._queue_lease_renewal()
        last: list[PendingCommand] = []
        while self._deferred:
            last.append(self._deferred.popleft())
        batch: list[PendingCommand] = []
        length = 0
        while self._commands and len(batch) < BATCH_COUNT_MAX and length < BATCH_LENGTH_MAX:
            batch.append(self._commands.popleft())
            length += document_length(batch[-1].command)
        if self._commands:  # It goes with those that wait longest.
            self._deferred.extendleft(reversed(last))
            return batch
        return batch + last

    def close_and_list(self) -> list[PendingCommand]:
        """What nobody takes any more; nothing can be put from here on."""
        self._is_closing = True
        return [*self._commands, *self._deferred]

    async def _wait_for_work(self) -> None:
        """For somebody to call, or for the lease to be due."""
        lease = self._lease
        with suppress(TimeoutError):
            async with asyncio.timeout(None if lease is None else lease.due_in_s()):
                await self._wake_event.wait()

    def _queue_lease_renewal(self) -> None:
        lease = self._lease
        if lease is not None and not self._is_closing and lease.due_in_s() <= 0:
            self._commands.appendleft(PendingCommand(lease.start_renewal(), lease))


def _ignore_answer(_command: Command[Any], _answer: Any) -> None:
    """Nobody keeps company."""
