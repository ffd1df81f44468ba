"""What a caller wants, made into the command that asks for it."""

from typing import Any

from headway.core.command.run.idempotency import make_fingerprint
from headway.core.command.run.submit import Submit
from headway.core.document import check_name, encode_document, parse_enum
from headway.core.duration import UNSET, TimeLimit, resolve_limit
from headway.core.errors import InvalidInput
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import OnExistingOutput, RunMode
from headway.core.secret import has_redacted
from headway.ports.run_reader import RunReader
from headway.services.submit.job import Job, encode_params
from headway.services.submit.saved_keys import read_saved_params
from headway.trace import current_trace


async def build_submission(
    job: Job,
    runs: RunReader,
    run_id: RunId,
    *,
    key: str | None,
    params: dict[str, Any] | None,
    mode: RunMode | str,
    lane: str | None,
    timeout_s: TimeLimit,
    queue_timeout_s: float | None,
    on_conflict: OnConflict | str,
    on_existing_output: OnExistingOutput | str | None,
    idempotency_key: str | None,
    by: str,
) -> Submit:
    """The command, checked; where the caller says nothing, what was saved or what the job says."""
    checked_key = Key(run_id if key is None else check_name(key, field="key"))
    taken, row_revision, kept = params, None, None
    if params is None and key is not None:
        taken, row_revision = await read_saved_params(runs, checked_key, job=job.name)
    elif isinstance(params, dict) and has_redacted(params):
        kept, row_revision = await read_saved_params(runs, checked_key, job=job.name)
    said = (
        job.name,
        key,
        mode,
        lane,
        on_conflict,
        on_existing_output,
        _limit_for_fingerprint(timeout_s),
        queue_timeout_s,
    )
    return Submit(
        run_id=run_id,
        key=checked_key,
        job=job.name,
        lane=job.lane if lane is None else LaneName(lane),
        params=encode_params(job, taken, stored=kept or {}),
        row_revision=row_revision,
        timeout_s=resolve_limit(timeout_s, job.timeout_s),
        queue_timeout_s=_or_default(queue_timeout_s, job.queue_timeout_s),
        recovery=job.recovery,
        on_conflict=parse_enum(OnConflict, on_conflict, field="on_conflict"),
        mode=parse_enum(RunMode, mode, field="mode"),
        on_existing_output=_check_existing_output(on_existing_output, mode),
        idempotency_key=idempotency_key,
        by=by,
        fingerprint="" if idempotency_key is None else _fingerprint(params, *said),
        traceparent=current_trace(),
    )


def _fingerprint(params: dict[str, Any] | None, *said: object) -> str:
    """Before anything is filled in: neither defaults nor what was saved for the key."""
    given = None if params is None else encode_document(params, field="params")
    return make_fingerprint("run", given, *said)


def _limit_for_fingerprint(limit: TimeLimit) -> float | str | None:
    """Return the limit as a fingerprint has it, where None has always meant not given."""
    if limit is UNSET:
        return None
    return "none" if limit is None else limit


def _or_default(seconds: float | None, usual_s: float | None) -> float | None:
    return usual_s if seconds is None else seconds


def _check_existing_output(
    on_existing_output: OnExistingOutput | str | None, mode: RunMode | str
) -> OnExistingOutput:
    if on_existing_output is None:
        return OnExistingOutput.ASK
    if mode == RunMode.CONTINUE:
        raise InvalidInput(
            "on_existing_output", "is for a start; a run that continues goes on with it"
        )
    return parse_enum(OnExistingOutput, on_existing_output, field="on_existing_output")
