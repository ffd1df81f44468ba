"""The write door: one thread, one connection; commands that wait together commit together.

A batch is locked, decided and written in one transaction. When a guard fails, or one command of it
goes wrong, the batch is rolled back and decided anew, then in halves, down to single commands, so
that none can undo its neighbours.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final

from headway.adapters.sql.connect.driver_errors import (
    first_line,
    is_conflict,
    is_disconnect,
    is_read_only,
    is_transient,
    to_store_error,
)
from headway.adapters.sql.notice import encode_notice
from headway.adapters.sql.statements import GuardFailed
from headway.adapters.sql.write.batch import Answer, InDoubtBatch, PendingCommand
from headway.adapters.sql.write.command_queue import CommandQueue
from headway.adapters.sql.write.instance_lease import Lease
from headway.adapters.sql.write.links.link_source import LinkSource
from headway.adapters.sql.write.load import load_batch_state
from headway.adapters.sql.write.write_changes import write_changes
from headway.adapters.sql.write.writer_row import (
    UPDATE_WRITER_ROW,
    lock_writer_row,
    plan_writer_row,
    remove_stale_writers,
    remove_writer_row,
)
from headway.core.command.protocol import Command, RowsNeeded
from headway.core.errors import (
    DatabaseFileLost,
    DatabaseUnavailable,
    InfrastructureError,
    OutcomeUnknown,
    StoreClosed,
)
from headway.core.ids import Instant
from headway.core.run.events import Event
from headway.log import event_log
from headway.process import run_loop

ATTEMPT_COUNT_MAX: Final = 20
TRANSACTION_S_MAX: Final = 30.0
OUTAGE_S_MAX: Final = 10.0
REPEATED_OUTAGE_S_MAX: Final = 1.0
RECONNECT_DELAY_S: Final = 0.2
RETIRE_S_MAX: Final = 2.0

log = event_log(__name__)


class Writer:
    """Belongs to the event loop that started it; only its own thread touches the link."""

    def __init__(
        self,
        *,
        writer_id: str,
        link_source: LinkSource,
        now: Callable[[], Instant] | None,
        on_committed: Callable[[Sequence[Event]], None],
    ) -> None:
        self._id = writer_id
        self._link_source = link_source
        self._now = now
        self._on_committed = on_committed
        self._batch_number = 0
        self._in_doubt: InDoubtBatch | None = None
        self._is_unavailable = False
        """The database could not be reached for as long as anybody would wait."""
        self.conflict_count = 0
        """Batches that had to be decided again because others had changed the same rows."""
        self.batch_count = 0

    async def start(self) -> None:
        """Open the link in the writer's thread; what goes wrong there is raised here."""
        self._loop = asyncio.get_running_loop()
        self.queue = CommandQueue()
        started: asyncio.Future[None] = self._loop.create_future()
        self._stopped = self._loop.create_future()
        self._thread = threading.Thread(
            target=lambda: run_loop(self._run(started)), name="headway-writer", daemon=True
        )
        self._thread.start()
        await started

    async def close(self) -> None:
        """Commit what waits, then close the link."""
        self.queue.close()
        await asyncio.shield(self._stopped)
        self._thread.join()

    # From here on: the writer's thread.

    async def _run(self, started: "asyncio.Future[None]") -> None:
        self.queue.attach_writer()
        try:
            await self._connect()
        except BaseException as error:
            self._send_answers([(started, None, error)])
            self._send_answers([(self._stopped, None, None)])
            return
        self._send_answers([(started, None, None)])
        try:
            while batch := await self.queue.next_batch():
                # While it is out, whoever waits is told soon, and not after each other.
                limit_s = REPEATED_OUTAGE_S_MAX if self._is_unavailable else OUTAGE_S_MAX
                try:
                    await self._commit_batch(batch, time.monotonic() + limit_s)
                except BaseException:
                    log.exception("writer_broke")
                    self._fail_batch(batch, StoreClosed())
                    raise
        finally:
            self._fail_batch(self.queue.close_and_list(), StoreClosed())
            await self._retire()
            self._send_answers([(self._stopped, None, None)])

    async def _commit_batch(self, batch: list[PendingCommand], give_up_at_s: float) -> None:
        """Answer every command of `batch`, whatever happens; its halves share its time."""
        for attempt in range(ATTEMPT_COUNT_MAX):
            try:
                async with asyncio.timeout(TRANSACTION_S_MAX):
                    answers, events = await self._run_transaction([one.command for one in batch])
            except Exception as error:  # The top of the loop: every fault becomes an answer.
                landed = await self._handle_failure(error, give_up_at_s)
                if isinstance(landed, InfrastructureError):
                    self._fail_batch(batch, landed)
                    return
                if landed is None:
                    if time.monotonic() > give_up_at_s and is_transient(error):
                        # Halves would each wait for the same lock once more.
                        self._fail_batch(batch, to_store_error(error))
                        return
                    is_last = not is_transient(error)
                    if len(batch) > 1 and (is_last or attempt > 0):
                        # Apart from its neighbours, each half stands or falls by itself.
                        middle = len(batch) // 2
                        await self._commit_batch(batch[:middle], give_up_at_s)
                        await self._commit_batch(batch[middle:], give_up_at_s)
                        return
                    if is_last or attempt == ATTEMPT_COUNT_MAX - 1:
                        self._fail_batch(batch, to_store_error(error))
                        return
                    continue
                answers, events = landed.answers, landed.events
            self._is_unavailable = False
            told = zip(batch, answers, strict=True)
            self._send_answers([(pending.answer, answer, None) for pending, answer in told], events)
            return

    async def _handle_failure(
        self, error: Exception, give_up_at_s: float
    ) -> InDoubtBatch | InfrastructureError | None:
        """Undo what failed, or reconnect; the batch, if its commit has landed all the same."""
        if isinstance(error, DatabaseFileLost):
            return await self._handle_lost_file(error)
        is_lost = is_disconnect(error) or is_read_only(error) or isinstance(error, TimeoutError)
        # Once COMMIT was sent, nothing but a look tells what became of it.
        if is_lost or self._in_doubt is not None:
            return await self._recover(error, give_up_at_s)
        if is_conflict(error):
            self.conflict_count += 1
        await self._rollback()
        if isinstance(error, GuardFailed) and error.args == (UPDATE_WRITER_ROW,):
            try:
                await self._register(is_new=True)  # So long silent that it was forgotten.
            except Exception as again:
                return await self._recover(again, give_up_at_s)
        return None

    async def _handle_lost_file(self, error: DatabaseFileLost) -> InfrastructureError:
        """Keep the link, because work continues if the same file comes back."""
        in_doubt = self._in_doubt
        await self._rollback()
        self._is_unavailable = True
        if in_doubt is None:
            return error
        # COMMIT succeeded, but on a file that was already lost.
        self._batch_number = in_doubt.batch_number
        return OutcomeUnknown(first_line(error))

    def _fail_batch(self, batch: Sequence[PendingCommand], error: BaseException) -> None:
        # A copy each: a traceback grows wherever an error is raised.
        self._send_answers([(pending.answer, None, copy(error)) for pending in batch])

    async def _run_transaction(
        self, commands: Sequence[Command[Any]]
    ) -> tuple[list[Any], list[Event]]:
        needs = RowsNeeded()
        for command in commands:
            command.need(needs)
        self._link_source.check_node()
        await self._link.begin()
        world, epoch = await load_batch_state(self._link, needs, now=self._now)
        loaded_seq = world.seq
        answers = [command.decide(world) for command in commands]
        world.finalize_results()
        if not world.has_changed:
            await self._link.rollback()
            return answers, []
        number = self._batch_number + 1
        own = plan_writer_row(self._id, batch_number=number, now=world.now)
        await write_changes(self._link, world, loaded_seq=loaded_seq, writer_row=own)
        self._in_doubt = InDoubtBatch(number, answers, world.changes.events)
        await self._link.commit(encode_notice(self._id, world.changes.events))
        self._in_doubt = None
        self._batch_number = number
        self.batch_count += 1
        self._link_source.note_commit(world.seq, epoch=epoch)
        return answers, world.changes.events

    async def _lock_writer_row(self) -> tuple[int, Instant]:
        """The number of the last batch that landed, and what time it is there."""
        number, now = await lock_writer_row(self._link, self._id, batch_number=self._batch_number)
        return number, now if self._now is None else self._now()

    async def _connect(self) -> None:
        """Connect, and make the own row; a connection that is lost over it is made anew.

        A process that was stopped in between may find that its session was ended meanwhile.
        """
        for attempt in range(ATTEMPT_COUNT_MAX):
            self._link = await self._link_source.connect()
            try:
                await self._register(is_new=True)
            except Exception as error:
                await self._drop_link()
                if attempt == ATTEMPT_COUNT_MAX - 1 or not is_disconnect(error):
                    raise
            else:
                return

    async def _register(self, *, is_new: bool) -> int:
        """Make the writer's own row, or find it again: the number of the last batch that landed.

        To find it again nothing is written: that could fail where the batch in doubt has failed.
        """
        await self._link.begin()
        try:
            number, now = await self._lock_writer_row()
            if is_new:
                await self._link.write_all(
                    [plan_writer_row(self._id, batch_number=number, now=now)]
                )
                await remove_stale_writers(self._link, now=now)
        except BaseException:
            await self._rollback()
            raise
        await self._link.commit()
        return number

    async def _recover(
        self, error: Exception, give_up_at_s: float
    ) -> InDoubtBatch | InfrastructureError | None:
        """Reconnect. The batch in doubt if it has landed, None if the commands must be replayed."""
        log.warning("database_lost", extra={"reason": str(error)})
        in_doubt, self._in_doubt = self._in_doubt, None
        self._link_source.note_disconnect()
        await self._drop_link()
        last: Exception = error
        while time.monotonic() < give_up_at_s:
            try:
                async with asyncio.timeout(TRANSACTION_S_MAX):
                    self._link = await self._link_source.connect()
                    # This locks our row: a commit still under way on the other side has ended then.
                    number = await self._register(is_new=False)
            except Exception as again:  # Whatever it is, the way out is to try again until the end.
                last = again
                await self._drop_link()
                if isinstance(again, DatabaseFileLost):  # A retry does not bring the file back.
                    break
                await asyncio.sleep(RECONNECT_DELAY_S)
                continue
            # Whatever has landed: a batch whose caller was told that nobody knows may have, too.
            self._batch_number = number
            return in_doubt if in_doubt is not None and number == in_doubt.batch_number else None
        self._is_unavailable = True
        if in_doubt is not None:
            return OutcomeUnknown(first_line(last))
        if isinstance(last, InfrastructureError):
            return last
        return DatabaseUnavailable({"database": first_line(last)})

    async def _retire(self) -> None:
        """Take the own row away, and close; if that fails the row is forgotten in time."""
        try:
            async with asyncio.timeout(RETIRE_S_MAX):
                await self._link.begin()
                await remove_writer_row(self._link, self._id)
                await self._link.commit()
        except Exception as error:  # At the end of its life there is nobody to tell.
            log.debug("writer_not_retired", extra={"reason": str(error)})
            with suppress(TimeoutError):
                async with asyncio.timeout(RETIRE_S_MAX):
                    await self._rollback()
        await self._drop_link()

    async def _drop_link(self) -> None:
        try:
            await self._link.close()
        except Exception as error:  # It is broken already; there is nothing to save.
            log.debug("link_closed_badly", extra={"reason": str(error)})

    async def _rollback(self) -> None:
        self._in_doubt = None
        try:
            await self._link.rollback()
        except Exception as error:  # The next transaction finds out and reconnects.
            log.debug("rollback_failed", extra={"reason": str(error)})

    def _send_answers(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> None:
        if answers and isinstance(answers[0][0], Lease):
            # It always stands first, and does not wait for an event loop that may be blocked.
            (lease, expires_at, error), *answers = answers
            assert isinstance(lease, Lease)
            lease.finish_renewal(expires_at, error)
        try:
            self._loop.call_soon_threadsafe(self._deliver, answers, events)
        except RuntimeError:  # Its event loop is closed: nobody listens any more.
            log.debug("answers_undeliverable", extra={"count": len(answers)})

    def _deliver(self, answers: Sequence[Answer], events: Sequence[Event]) -> None:
        for future, answer, error in answers:
            assert not isinstance(future, Lease)
            if future.done():  # Its caller was cancelled; what it asked for was done all the same.
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
        if events:
            self._on_committed(events)
