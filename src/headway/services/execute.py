"""Execute one claimed run, and say how it ended."""

import asyncio
import logging

from headway.core.command.claim import Claimed
from headway.core.command.settle import Complete, ConfirmCancel, Fail, TooLate
from headway.core.document import Document, encode_document
from headway.core.errors import InvalidInput
from headway.core.run.run import Claim
from headway.ports.store import Store
from headway.services.context import RunContext
from headway.services.job import Job

log = logging.getLogger(__name__)


async def execute(store: Store, job: Job, claimed: Claimed) -> None:
    """Run the job's function, whatever it does; its end is settled under the claim."""
    answer = await store.apply(await _outcome(store, job, claimed))
    if isinstance(answer, TooLate):
        log.debug("settled_too_late", extra={"run_id": claimed.run_id, "status": answer.status})


async def _outcome(store: Store, job: Job, claimed: Claimed) -> Complete | Fail | ConfirmCancel:
    claim = Claim(claimed.run_id, claimed.token)
    context = RunContext(claimed, store)
    try:
        result = await job.function(context, **context.params)
        return Complete(claim, encode_document(result, place="result"))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return ConfirmCancel(claim)
    except InvalidInput as error:
        return Fail(claim, _error("invalid_result", str(error)))
    except Exception as error:  # A job may raise anything: it becomes the run's error.
        log.info("job_failed", exc_info=error, extra={"run_id": claimed.run_id})
        return Fail(claim, _error("error", f"{type(error).__name__}: {error}"))


def _error(code: str, message: str) -> Document:
    printable = (
        message.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    )
    return encode_document({"code": code, "message": printable[:4_000]}, place="error")
