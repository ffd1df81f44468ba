"""Execute one claimed run, and say how it ended."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from headway.core.command.settle import Complete, ConfirmCancel, Fail, TooLate
from headway.core.command.wait import Park, Retry
from headway.core.document import Document, encode_document
from headway.core.errors import InfrastructureError, InvalidInput, StoreClosed, TooLarge
from headway.core.ids import Instant
from headway.core.run.run import Claim
from headway.ports.store import Store
from headway.services.blocking import JobExited, call_in_thread
from headway.services.context import RunContext
from headway.services.execution import Ending, Execution
from headway.services.job import Job

AT_ONCE: Final = Instant(0)
AGAIN_S: Final = 0.5

T = TypeVar("T")

log = logging.getLogger(__name__)


async def execute(store: Store, job: Job, execution: Execution) -> None:
    """Run the job's function, whatever it does; its end is settled under the claim.

    When it is to end early its task is cancelled: `give_up` says what becomes of the run then.
    """
    context = RunContext(execution, store)
    try:
        outcome = await _outcome(job, context, execution)
        execution.is_settling = True
        await persistently(context.end)
        answer = await persistently(lambda: store.apply(outcome))
    except asyncio.CancelledError:
        if execution.ending is None:  # Not the engine's: the program itself is ending.
            raise
        if execution.ending is not Ending.LOST:
            await persistently(lambda: give_up(store, execution.claim))
        return
    if isinstance(answer, TooLate) or answer is False:
        log.debug("settled_too_late", extra={"run_id": execution.claimed.run_id})


async def _outcome(job: Job, context: RunContext, execution: Execution) -> Complete | Fail | Retry:
    claim = execution.claim
    try:
        arguments = job.parameters.parse(execution.claimed.params)
    except InvalidInput as error:  # The function has changed since the run was accepted.
        return Fail(claim, _error("invalid_params", str(error)))
    try:
        if job.is_async:
            result = await job.function(context, **arguments)
        else:
            result = await call_in_thread(job.function, context, arguments)
    except asyncio.CancelledError as error:
        if execution.ending is not None:
            raise
        return _failure(job, execution, error)  # Of the job's own making.
    except (Exception, SystemExit) as error:  # A job may raise anything: it is the run's error.
        return _failure(job, execution, error)
    return _result(claim, result)


def _failure(job: Job, execution: Execution, error: BaseException) -> Fail | Retry:
    run_id, attempt = execution.claimed.run_id, execution.claimed.attempt
    log.info("job_failed", exc_info=error, extra={"run_id": run_id, "attempt": attempt})
    said = _error("error", _said(error))
    has_more = attempt <= job.retries and not isinstance(error, SystemExit | JobExited)
    if has_more and execution.ending is None:
        # Nothing is at stake: it only keeps those that failed together from coming together.
        delay_s = job.backoff.delay_s(attempt, share=random.random())  # noqa: S311
        return Retry(execution.claim, said, delay_s)
    return Fail(execution.claim, said)


def _result(claim: Claim, result: Any) -> Complete | Fail:
    try:
        return Complete(claim, encode_document(result, place="result"))
    except InvalidInput as error:
        code = "too_large" if isinstance(error, TooLarge) else "invalid_result"
        return Fail(claim, _error(code, str(error)))


async def persistently(action: Callable[[], Awaitable[T]]) -> T:
    """The answer, however long the database is away. To be ended, it is cancelled.

    Only for what may be done twice: whoever was too late the second time is told so.
    """
    while True:  # Until there is an answer, or the execution is ended from outside.
        try:
            return await action()
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("database_awaited", extra={"reason": str(error)})
            await asyncio.sleep(AGAIN_S)


async def give_up(store: Store, claim: Claim) -> None:
    """End an execution, not its run: unless a cancel was asked for, the run is ready for others."""
    if isinstance(await store.apply(ConfirmCancel(claim)), TooLate):
        await store.apply(Park(claim, wake_at=AT_ONCE))


def _said(error: BaseException) -> str:
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _error(code: str, message: str) -> Document:
    printable = (
        message.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    )
    return encode_document({"code": code, "message": printable[:4_000]}, place="error")
