"""The writer: one thread with one connection, through which all changes are committed.

The commands that wait in the queue form a batch. A batch is loaded, decided and written in one
transaction. If a guard fails, because another process has changed a row, the batch is rolled back
and decided again. If the batch fails again, or one of its commands raises an error, its halves are
committed one after the other, down to single commands. So one command cannot make the others fail.

If the answer to COMMIT is lost, the batch is in doubt: the writer reconnects and reads its own row
(`writer_row.py`) to find out whether the batch was committed.

See docs/internals/writer.md.
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
from headway.adapters.sql.statements import GuardFailed
from headway.adapters.sql.write.batch import Answer, InDoubtBatch, PendingCommand
from headway.adapters.sql.write.command_queue import CommandQueue
from headway.adapters.sql.write.instance_lease import Lease
from headway.adapters.sql.write.links.driver_link import Commit
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
from headway.process.dedicated import run_loop

ATTEMPT_COUNT_MAX: Final = 20
TRANSACTION_S_MAX: Final = 30.0
OUTAGE_S_MAX: Final = 10.0
REPEATED_OUTAGE_S_MAX: Final = 1.0
RECONNECT_DELAY_S: Final = 0.2
DEREGISTER_S_MAX: Final = 2.0

log = event_log(__name__)


class Writer:
    """Commits one event loop's commands in a separate thread. Only that thread uses the link."""

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
        """True if the last batch failed because the database could not be reached in time."""
        self.conflict_count = 0
        """How many batches were decided again because another process had changed the rows."""
        self.batch_count = 0

    async def start(self) -> None:
        """Start the thread and open the link in it. Raise the error if that fails."""
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
        """Commit the queued commands, then close the link."""
        self.queue.close()
        await asyncio.shield(self._stopped)
        self._thread.join()

    # The methods below run in the writer's thread.

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
                # During an outage batches fail quickly, so that callers do not queue up.
                limit_s = REPEATED_OUTAGE_S_MAX if self._is_unavailable else OUTAGE_S_MAX
                try:
                    await self._commit_batch(batch, time.monotonic() + limit_s)
                except BaseException:
                    log.exception("writer_crashed")
                    self._fail_batch(batch, StoreClosed())
                    raise
        finally:
            self._fail_batch(self.queue.close_and_list(), StoreClosed())
            await self._deregister()
            self._send_answers([(self._stopped, None, None)])

    async def _commit_batch(self, batch: list[PendingCommand], give_up_at_s: float) -> None:
        """Commit `batch` and answer each of its commands.

        If the batch is split into halves, they share its time limit.
        """
        for attempt in range(ATTEMPT_COUNT_MAX):
            try:
                async with asyncio.timeout(TRANSACTION_S_MAX):
                    commands = [pending.command for pending in batch]
                    answers, events = await self._run_transaction(commands)
            except Exception as error:  # The top of the loop: every error becomes an answer.
                outcome = await self._handle_failure(error, give_up_at_s)
                if isinstance(outcome, InfrastructureError):
                    self._fail_batch(batch, outcome)
                    return
                if outcome is None:
                    if time.monotonic() > give_up_at_s and is_transient(error):
                        # Each half would wait for the same lock again.
                        self._fail_batch(batch, to_store_error(error))
                        return
                    is_permanent = not is_transient(error)
                    if len(batch) > 1 and (is_permanent or attempt > 0):
                        # Separate halves, so that one command cannot make the others fail.
                        middle = len(batch) // 2
                        await self._commit_batch(batch[:middle], give_up_at_s)
                        await self._commit_batch(batch[middle:], give_up_at_s)
                        return
                    if is_permanent or attempt == ATTEMPT_COUNT_MAX - 1:
                        self._fail_batch(batch, to_store_error(error))
                        return
                    continue
                answers, events = outcome.answers, outcome.events
            self._is_unavailable = False
            pairs = zip(batch, answers, strict=True)
            self._send_answers(
                [(pending.answer, answer, None) for pending, answer in pairs], events
            )
            return

    async def _handle_failure(
        self, error: Exception, give_up_at_s: float
    ) -> InDoubtBatch | InfrastructureError | None:
        """Roll back, or reconnect if the connection is lost.

        If the batch was committed after all, return it as the batch in doubt. If the batch must
        fail, return the error for its callers. If its commands must be decided again, return None.
        """
        if isinstance(error, DatabaseFileLost):
            return await self._handle_lost_file(error)
        is_lost = is_disconnect(error) or is_read_only(error) or isinstance(error, TimeoutError)
        # After COMMIT was sent, only the writer's row shows whether it succeeded.
        if is_lost or self._in_doubt is not None:
            return await self._recover(error, give_up_at_s)
        if is_conflict(error):
            self.conflict_count += 1
        await self._rollback()
        if isinstance(error, GuardFailed) and error.args == (UPDATE_WRITER_ROW,):
            try:
                # The row was removed as stale, after a long time without a batch.
                await self._register(is_new=True)
            except Exception as register_error:
                return await self._recover(register_error, give_up_at_s)
        return None

    async def _handle_lost_file(self, error: DatabaseFileLost) -> InfrastructureError:
        """Roll back, but do not reconnect: work continues if the same file comes back."""
        in_doubt = self._in_doubt
        await self._rollback()
        self._is_unavailable = True
        if in_doubt is None:
            return error
        # COMMIT succeeded, but on a file that was already lost.
        self._batch_number = in_doubt.batch_number
        return OutcomeUnknown(first_line(error))

    def _fail_batch(self, batch: Sequence[PendingCommand], error: BaseException) -> None:
        # Each caller gets a copy, because raising an error extends its traceback.
        self._send_answers([(pending.answer, None, copy(error)) for pending in batch])

    async def _run_transaction(
        self, commands: Sequence[Command[Any]]
    ) -> tuple[list[Any], list[Event]]:
        """Load, decide, write and commit. Return the answers and the new events."""
        needed = RowsNeeded()
        for command in commands:
            command.need(needed)
        await self._link.begin()
        batch, epoch = await load_batch_state(self._link, needed, now=self._now)
        loaded_seq = batch.seq
        answers = [command.decide(batch) for command in commands]
        if not batch.finalize():
            await self._link.rollback()
            return answers, []
        number = self._batch_number + 1
        writer_row = plan_writer_row(self._id, batch_number=number, now=batch.now)
        await write_changes(self._link, batch, loaded_seq=loaded_seq, writer_row=writer_row)
        self._in_doubt = InDoubtBatch(number, answers, batch.changes.events)
        await self._link.commit(Commit(self._id, batch.changes.events, batch.seq, epoch))
        self._in_doubt = None
        self._batch_number = number
        self.batch_count += 1
        return answers, batch.changes.events

    async def _lock_writer_row(self) -> tuple[int, Instant]:
        """Lock the writer's row. Return the number of its last batch and the database's time."""
        number, now = await lock_writer_row(self._link, self._id, batch_number=self._batch_number)
        return number, now if self._now is None else self._now()

    async def _connect(self) -> None:
        """Connect and create the writer's row. Start again if the connection is lost in between.

        If the process was paused, the server may have ended the session.
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
        """Create the writer's row, or lock it again after a reconnection.

        Return the number of the last committed batch. With `is_new=False` an existing row is only
        read: a write could fail for the same reason as the batch in doubt.
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
        """Reconnect after `error`, with repeated attempts until `give_up_at_s`.

        If the batch in doubt was committed, return it. If the commands must be decided again,
        return None. If the database is still unavailable, return an error. That error is
        OutcomeUnknown if a commit is in doubt.
        """
        log.warning("database_lost", extra={"reason": str(error)})
        in_doubt, self._in_doubt = self._in_doubt, None
        self._link_source.note_disconnect()
        await self._drop_link()
        last_error: Exception = error
        while time.monotonic() < give_up_at_s:
            try:
                async with asyncio.timeout(TRANSACTION_S_MAX):
                    self._link = await self._link_source.connect()
                    # This locks the writer's row, so it waits until a commit that is still in
                    # flight on the server has ended.
                    number = await self._register(is_new=False)
            except Exception as connect_error:  # After any error, retry until the time is over.
                last_error = connect_error
                await self._drop_link()
                if isinstance(connect_error, DatabaseFileLost):  # A retry cannot restore the file.
                    break
                await asyncio.sleep(RECONNECT_DELAY_S)
                continue
            # Also counts an earlier batch in doubt, whose callers got OutcomeUnknown.
            self._batch_number = number
            return in_doubt if in_doubt is not None and number == in_doubt.batch_number else None
        self._is_unavailable = True
        if in_doubt is not None:
            return OutcomeUnknown(first_line(last_error))
        if isinstance(last_error, InfrastructureError):
            return last_error
        return DatabaseUnavailable({"database": first_line(last_error)})

    async def _deregister(self) -> None:
        """Remove the writer's row and close the link.

        If that fails, another writer removes the row once it is stale.
        """
        try:
            async with asyncio.timeout(DEREGISTER_S_MAX):
                await self._link.begin()
                await remove_writer_row(self._link, self._id)
                await self._link.commit()
        except Exception as error:  # The writer ends here, so no caller could receive the error.
            log.debug("writer_row_removal_failed", extra={"reason": str(error)})
            with suppress(TimeoutError):
                async with asyncio.timeout(DEREGISTER_S_MAX):
                    await self._rollback()
        await self._drop_link()

    async def _drop_link(self) -> None:
        try:
            await self._link.close()
        except Exception as error:  # The connection is already broken.
            log.debug("link_close_failed", extra={"reason": str(error)})

    async def _rollback(self) -> None:
        self._in_doubt = None
        try:
            await self._link.rollback()
        except Exception as error:  # The next transaction fails too, and reconnects.
            log.debug("rollback_failed", extra={"reason": str(error)})

    def _send_answers(self, answers: Sequence[Answer], events: Sequence[Event] = ()) -> None:
        if answers and isinstance(answers[0][0], Lease):
            # A lease renewal is always first in its batch. It is answered in this thread, because
            # the event loop may be blocked.
            (lease, expires_at, error), *answers = answers
            assert isinstance(lease, Lease)
            lease.finish_renewal(expires_at, error)
        try:
            self._loop.call_soon_threadsafe(self._deliver, answers, events)
        except RuntimeError:  # The event loop of the callers is closed.
            log.debug("answers_undeliverable", extra={"count": len(answers)})

    def _deliver(self, answers: Sequence[Answer], events: Sequence[Event]) -> None:
        for future, answer, error in answers:
            assert not isinstance(future, Lease)
            if future.done():  # The caller was canceled, but its command was executed.
                continue
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
        if events:
            self._on_committed(events)
