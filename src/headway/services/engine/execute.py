"""Execute one claimed run, and write its outcome."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from headway.core.command.admin.instance import HandOver
from headway.core.command.flow.advance import AdvanceFlow, EndTask
from headway.core.command.run.cancel import ConfirmCancelDelivery
from headway.core.command.run.settle import Complete, ConfirmCancel, Fail, TooLate
from headway.core.command.run.wait import Retry
from headway.core.document import Document, encode_document, replace_unstorable
from headway.core.errors import (
    InfrastructureError,
    InvalidInput,
    StoreClosed,
    TooLarge,
)
from headway.core.run.run import Claim
from headway.core.secret import secret_values
from headway.log import event_log, log_context
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.process.fork_guard import run_guarded
from headway.services.context.blocking_context import call_in_thread
from headway.services.context.child_runs import Children
from headway.services.context.execution import Ending, Execution
from headway.services.context.output_files import Output
from headway.services.context.run_context import RunContext
from headway.services.job_errors import (
    JobExited,
    describe_error,
    format_traceback,
    hide_secrets,
    is_function_error,
    log_if_ended,
)
from headway.services.refused_writes import WriteRefusals
from headway.services.retrying import RETRY_S, retry_until_available
from headway.services.submit.job import Job
from headway.trace import Span, open_adopted_span

_EXIT_ERRORS: Final = (SystemExit, KeyboardInterrupt, GeneratorExit, JobExited)
"""Exceptions that would end the program. In a job they fail the run, without a retry."""
FinalCommand = Complete | Fail | Retry | AdvanceFlow

log = event_log(__name__)


async def execute(
    store: Store,
    clock: Clock,
    job: Job,
    execution: Execution,
    *,
    children: Callable[[], Children],
    output: Output,
) -> None:
    """Run the job's function, and write its result or error under the claim.

    To end an execution early the engine cancels its task. The claim is then released (see
    `release_claim`), unless it is lost.
    """
    claimed = execution.claimed
    fields = {"run_id": claimed.run_id, "key": claimed.key, "job": claimed.job}
    log_context.set(fields)
    context = RunContext(execution, store, clock, children=children, output=output)
    try:
        with open_adopted_span(f"run {job.name}", claimed.traceparent, fields) as span:
            await _execute(store, job, execution, context, span)
    finally:
        if context.files is not None:
            await context.files.close()


async def _execute(
    store: Store, job: Job, execution: Execution, context: RunContext, span: Span
) -> None:
    try:
        execution.begin()
        try:
            outcome = await _run_job(job, context, execution)
        finally:
            execution.cancel_grace_timer()
        execution.is_settling = True
        if (error := _outcome_error(outcome)) is not None:
            span.fail(error)
        await context.finish()
        await context.end_files(is_released=False)
        answer = await _write_outcome(store, execution, outcome)
    except asyncio.CancelledError:
        if execution.ending is None:  # The engine did not cancel it: the program ends.
            raise
        span.fail(execution.ending.value)
        await context.end_files(is_released=True)
        await context.finish()
        if execution.ending is not Ending.LOST:
            hand_over = hand_over_command(execution)
            await retry_until_available(lambda: release_claim(store, hand_over))
        return
    if answer is False:  # The retry was refused: the run was canceled, or the claim is stale.
        hand_over = HandOver(execution.claim, has_progressed=True)
        await retry_until_available(lambda: release_claim(store, hand_over))
    elif isinstance(answer, TooLate):
        log.debug("run_settled_too_late", extra={"run_id": execution.claimed.run_id})


async def _write_outcome(store: Store, execution: Execution, outcome: FinalCommand) -> object:
    """Write the outcome, and return the answer. Retry while the database is unavailable.

    If the database permanently refuses the outcome, for example because it is too large, fail the
    run instead with the code `not_stored`.
    """
    refusals: WriteRefusals | None = None
    while True:  # Until the store answers, or this task is canceled.
        try:
            return await store.apply(outcome)
        except StoreClosed:
            raise
        except InfrastructureError as error:
            log.warning("database_unavailable", extra={"reason": str(error)})
            refusals = refusals or WriteRefusals(store, execution.claim)
            if await refusals.is_final(error):
                problem = f"the outcome of the run could not be stored: {error}"
                failure = _build_fail(execution, "not_stored", problem)
                return await retry_until_available(partial(store.apply, failure))
            await asyncio.sleep(RETRY_S)


async def _run_job(job: Job, context: RunContext, execution: Execution) -> FinalCommand:
    task = asyncio.current_task()
    try:
        arguments = job.parameters.parse(execution.claimed.params)
    except Exception as error:  # The signature has changed, or a validator raised.
        problem = str(error) if isinstance(error, InvalidInput) else describe_error(error)
        return _build_fail(execution, "invalid_params", problem)
    try:
        if context.files is not None:
            await context.files.prepare()
        if job.is_async:
            result = await run_guarded(job.function(context, **arguments))
        else:
            result = await call_in_thread(job.function, context, arguments)
    except BaseException as error:  # A job may raise anything; it becomes the run's error.
        if not is_function_error(error, task):
            raise
        if execution.ending is not None:  # Ignore an error that the end of the job caused.
            raise asyncio.CancelledError from error
        return _fail_or_retry(job, execution, error)
    if job.is_async:
        is_interrupted = execution.is_cancelled or execution.has_seen_ending
        if not execution.is_result_valid(execution.ending, is_interrupted=is_interrupted):
            raise asyncio.CancelledError
    if isinstance(result, AdvanceFlow):  # The last step of a flow task contains its outcome.
        if (flow_error := _outcome_error(result)) is not None:
            log.error("job_failed", extra={**_log_fields(execution), "error": flow_error})
        return result
    return _encode_result(execution, result)


def _fail_or_retry(job: Job, execution: Execution, error: BaseException) -> Fail | Retry:
    attempt = execution.claimed.attempt
    has_more = attempt <= job.retries and not isinstance(error, _EXIT_ERRORS)
    is_last = not has_more or execution.ending is not None
    raised = error.__cause__ or error if isinstance(error, JobExited) else error
    if not is_last:
        secrets = secret_values(execution.claimed.params)
        message = hide_secrets(describe_error(raised), secrets)
        log.warning("job_attempt_failed", extra={**_log_fields(execution), "error": message})
        # Jitter only: runs that failed together should not be retried together.
        delay_s = job.backoff.delay_s(attempt, share=random.random())  # noqa: S311
        traceback = format_traceback(raised, secrets=secrets)
        return Retry(execution.claim, _encode_error("error", message), delay_s, traceback)
    return _build_fail(execution, "error", describe_error(raised), raised=raised)


def _build_fail(
    execution: Execution, code: str, message: str, *, raised: BaseException | None = None
) -> Fail:
    """Log a failure, and return the command that fails the run.

    The run's secrets are hidden in the log and in the command.
    """
    secrets = secret_values(execution.claimed.params)
    message = hide_secrets(message, secrets)
    traceback = None if raised is None else format_traceback(raised, secrets=secrets)
    fields = {**_log_fields(execution), "error": message if raised else f"{code}: {message}"}
    if secrets and raised is not None:  # With `exc_info` a handler would write out the secrets.
        log.error("job_failed", extra={**fields, "traceback": traceback})
    else:
        log.error("job_failed", exc_info=raised, extra=fields)
    return Fail(execution.claim, _encode_error(code, message), traceback)


def _log_fields(execution: Execution) -> dict[str, object]:
    claimed = execution.claimed
    return {
        "job": claimed.job,
        "key": claimed.key,
        "run_id": claimed.run_id,
        "attempt": claimed.attempt,
    }


def _outcome_error(outcome: FinalCommand) -> Document | None:
    match outcome:
        case Fail(error=error) | Retry(error=error) | AdvanceFlow(next_action=EndTask(error=error)):
            return error
        case _:
            return None


def _encode_result(execution: Execution, result: Any) -> Complete | Fail:
    try:
        return Complete(execution.claim, encode_document(result, field="result"))
    except InvalidInput as error:
        code = "too_large" if isinstance(error, TooLarge) else "invalid_result"
        return _build_fail(execution, code, str(error))


def hand_over_command(execution: Execution) -> HandOver:
    """Return the command that hands the run of `execution` over to another instance."""
    return HandOver(
        execution.claim,
        has_progressed=execution.has_progressed or not execution.has_begun,
        has_waited=bool(execution.was_waiting_at_stop),
    )


async def release_claim(store: Store, hand_over: HandOver) -> None:
    """End an execution without an outcome: confirm a requested cancel, or hand the run over.

    Any instance, including this one, may then claim a run that was handed over.
    """
    if isinstance(await store.apply(ConfirmCancel(hand_over.claim)), TooLate):
        log_if_ended(await store.apply(hand_over))


async def confirm_delivery(store: Store, claim: Claim) -> None:
    """Record that a cancel has reached the execution, for display. A failure is ignored."""
    with suppress(InfrastructureError):
        await store.apply(ConfirmCancelDelivery(claim))


def _encode_error(code: str, message: str) -> Document:
    return encode_document(
        {"code": code, "message": replace_unstorable(message)[:4_000]}, field="error"
    )
