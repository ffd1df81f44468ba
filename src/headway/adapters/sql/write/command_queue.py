"""The queue of commands between the event loop and the writer's thread.

The event loop puts commands, the writer's thread takes them in batches. There is no lock: both
sides use `deque` operations, which are atomic, and each side reads and writes in a fixed order:

- `put` appends a command and then checks `_is_writer_waiting`. The writer sets that flag and then
  checks the queue again before it waits. So at least one of the two detects the other's change.
- `put` appends a command and then checks `_deferred`, while the writer takes `_deferred` first and
  `_commands` second. So the deferred command that follows a command is in the same batch or in a
  later one.

See docs/internals/writer.md.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from headway.adapters.sql.write.batch import PendingCommand
from headway.adapters.sql.write.instance_lease import Lease
from headway.core.command.protocol import Command
from headway.core.errors import StoreClosed, StoreOverloaded
from headway.core.ids import InstanceId
from headway.process.fork_guard import exit_if_forked, fork_mark

BATCH_COUNT_MAX: Final = 1_000
QUEUED_COUNT_MAX: Final = 100_000
BATCH_LENGTH_MAX: Final = 16 << 20

PiggybackSource = Callable[[Command[Any]], Command[Any] | None]


class CommandQueue:
    """Commands that one event loop puts and the writer's event loop takes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fork_mark = fork_mark()
        self._commands: deque[PendingCommand] = deque()
        self._deferred: deque[PendingCommand] = deque()
        """Piggybacked claims, which are decided after all other commands of their batch."""
        self._piggyback_source: PiggybackSource | None = None
        self._on_answer: Callable[[Command[Any], Any], None] = _ignore_answer
        self._lease: Lease | None = None
        self.lost_lease_count = -1  # The first lease does not replace a lost one.
        self._is_closing = False
        self._is_writer_waiting = False
        self._is_wake_scheduled = False

    def put(self, command: Command[Any]) -> "asyncio.Future[Any]":
        """Queue a command. Return a future that receives the answer after the commit.

        Raise StoreClosed after `close`. Raise StoreOverloaded if the queue is full.
        """
        exit_if_forked(self._fork_mark)  # A forked child has no writer.
        if self._is_closing:
            raise StoreClosed
        if len(self._commands) >= QUEUED_COUNT_MAX:
            raise StoreOverloaded(len(self._commands))
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._commands.append(PendingCommand(command, answer))
        # Checked after the append: the writer takes `_deferred` before `_commands`, so no command
        # misses its claim.
        if self._piggyback_source is not None and not self._deferred:
            claim = self._piggyback_source(command)
            if claim is not None:
                self._deferred.append(self._create_piggyback(claim))
        if self._is_writer_waiting and not self._is_wake_scheduled:
            # Wake it at the end of this event loop round, so that all its commands are one batch.
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
        """Renew the lease of `instance_id` until the returned function is called.

        The writer's thread calls `on_renewed` with the `time.monotonic` value until which the lease
        can be trusted, or with None if the lease is lost.
        """
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
        """Renew the lease at once instead of at its next due time."""
        if self._lease is not None:
            self._lease.renew_now()
            self._wake_writer()

    def piggyback(
        self, source: PiggybackSource, on_answer: Callable[[Command[Any], Any], None]
    ) -> Callable[[], None]:
        """Add commands from `source` to batches, until the returned function is called.

        A batch has at most one such command, which is decided last. `on_answer` is called with each
        added command and its answer.
        """
        assert self._piggyback_source is None, "a writer serves one instance"
        self._piggyback_source, self._on_answer = source, on_answer

        def end() -> None:
            self._piggyback_source = None

        return end

    def _create_piggyback(self, command: Command[Any]) -> PendingCommand:
        answer: asyncio.Future[Any] = self._loop.create_future()

        def deliver(answer: "asyncio.Future[Any]") -> None:
            if not answer.cancelled() and answer.exception() is None:
                self._on_answer(command, answer.result())

        answer.add_done_callback(deliver)
        return PendingCommand(command, answer)

    def close(self) -> None:
        """Refuse new commands. Queued commands are still executed."""
        self._is_closing = True
        self._wake_writer()

    @property
    def is_idle(self) -> bool:
        return self._is_writer_waiting and not self._commands and not self._deferred

    def _wake_writer(self) -> None:
        # The commands were appended before this check. The writer sets the flag before it checks
        # the queue, so at least one of the two detects the other's change.
        self._is_wake_scheduled = False
        if self._is_writer_waiting:
            self._is_writer_waiting = False
            self._writer_loop.call_soon_threadsafe(self._wake_event.set)

    # The methods below run in the writer's thread.

    def attach_writer(self) -> None:
        """Use the running event loop as the writer's loop. Call once, in the writer's thread."""
        self._writer_loop = asyncio.get_running_loop()
        self._wake_event = asyncio.Event()

    async def next_batch(self) -> list[PendingCommand]:
        """Wait for commands and return them, up to the limits of a batch.

        Return an empty list if the queue is closed and empty.
        """
        due_in_s = self._queue_lease_renewal()
        while not (self._commands or self._deferred):
            if self._is_closing:
                return []
            self._wake_event.clear()
            self._is_writer_waiting = True
            if not (self._commands or self._deferred or self._is_closing):
                with suppress(TimeoutError):
                    async with asyncio.timeout(due_in_s):
                        await self._wake_event.wait()
            self._is_writer_waiting = False
            if not self._commands:  # Woken for the lease: it is due, or a lease was added.
                due_in_s = self._queue_lease_renewal()
        deferred: list[PendingCommand] = []
        while self._deferred:
            deferred.append(self._deferred.popleft())
        batch: list[PendingCommand] = []
        length = 0
        while self._commands and len(batch) < BATCH_COUNT_MAX and length < BATCH_LENGTH_MAX:
            batch.append(self._commands.popleft())
            length += batch[-1].command.document_length()
        if self._commands:  # The deferred commands follow the last of the queued ones.
            self._deferred.extendleft(reversed(deferred))
            return batch
        return batch + deferred

    def close_and_list(self) -> list[PendingCommand]:
        """Refuse new commands, and return the queued ones, which will not be executed."""
        self._is_closing = True
        return [*self._commands, *self._deferred]

    def _queue_lease_renewal(self) -> float | None:
        """Queue a lease renewal if one is due. Return the seconds until the next check."""
        lease = self._lease
        if lease is None or self._is_closing:
            return None
        due_in_s = lease.due_in_s()
        if due_in_s <= 0:
            # First in the queue: `Writer._send_answers` expects it there.
            self._commands.appendleft(PendingCommand(lease.start_renewal(), lease))
        return due_in_s


def _ignore_answer(_command: Command[Any], _answer: Any) -> None:
    """Do nothing. This is the `on_answer` callback while there is no piggyback source."""
