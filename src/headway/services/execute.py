"""Execute one claimed run, and say how it ended."""

import asyncio
import logging
from typing import Any, Final

from headway.core.command.claim import Claimed
from headway.core.command.settle import Complete, ConfirmCancel, Fail, TooLate
from headway.core.command.wait import Park
from headway.core.document import Document, encode_document
from headway.core.errors import InvalidInput, TooLarge
from headway.core.ids import Instant
from headway.core.run.run import Claim
from headway.ports.store import Store
from headway.services.context import RunContext
from headway.services.job import Job

AT_ONCE: Final = Instant(0)

log = logging.getLogger(__name__)


async def execute(store: Store, job: Job, claimed: Claimed) -> None:
    """Run the job's function, whatever it does; its end is settled under the claim.

    To cancel the task is to ask the job for its end: `give_up` says what becomes of the run.
    """
    claim = Claim(claimed.run_id, claimed.token)
    context = RunContext(claimed, store)
    outcome: Complete | Fail
    try:
        result = await job.function(context, **context.params)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        assert task is not None
        if task.cancelling():
            await give_up(store, claim)
            return
        outcome = Fail(claim, _error("error", _said(error)))  # Of the job's own making.
    except Exception as error:  # A job may raise anything: it becomes the run's error.
        log.info("job_failed", exc_info=error, extra={"run_id": claimed.run_id})
        outcome = Fail(claim, _error("error", _said(error)))
    else:
        outcome = _outcome_of(claim, result)
    answer = await store.apply(outcome)
    if isinstance(answer, TooLate):
        log.debug("settled_too_late", extra={"run_id": claimed.run_id, "status": answer.status})


async def give_up(store: Store, claim: Claim) -> None:
    """End an execution, not its run: unless a cancel was asked for, the run is ready for others."""
    if isinstance(await store.apply(ConfirmCancel(claim)), TooLate):
        await store.apply(Park(claim, wake_at=AT_ONCE))


def _outcome_of(claim: Claim, result: Any) -> Complete | Fail:
    try:
        return Complete(claim, encode_document(result, place="result"))
    except InvalidInput as error:
        code = "too_large" if isinstance(error, TooLarge) else "invalid_result"
        return Fail(claim, _error(code, str(error)))


def _said(error: BaseException) -> str:
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _error(code: str, message: str) -> Document:
    printable = (
        message.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    )
    return encode_document({"code": code, "message": printable[:4_000]}, place="error")
