"""Build the command that submits a run from the arguments of a caller."""

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
    """Return the validated command. Missing arguments come from the key's saved row or the job."""
    checked_key = Key(run_id if key is None else check_name(key, field="key"))
    used_params, row_revision, stored = params, None, None
    if params is None and key is not None:
        used_params, row_revision = await read_saved_params(runs, checked_key, job=job.name)
    elif isinstance(params, dict) and has_redacted(params):
        stored, row_revision = await read_saved_params(runs, checked_key, job=job.name)
    limits = (_limit_for_fingerprint(timeout_s), queue_timeout_s)
    request = (job.name, key, mode, lane, on_conflict, on_existing_output, *limits)
    return Submit(
        run_id=run_id,
        key=checked_key,
        job=job.name,
        lane=job.lane if lane is None else LaneName(lane),
        params=encode_params(job, used_params, stored=stored or {}),
        row_revision=row_revision,
        timeout_s=resolve_limit(timeout_s, job.timeout_s),
        queue_timeout_s=_or_default(queue_timeout_s, job.queue_timeout_s),
        recovery=job.recovery,
        on_conflict=parse_enum(OnConflict, on_conflict, field="on_conflict"),
        mode=parse_enum(RunMode, mode, field="mode"),
        on_existing_output=_check_existing_output(on_existing_output, mode),
        idempotency_key=idempotency_key,
        by=by,
        fingerprint="" if idempotency_key is None else _fingerprint(params, *request),
        traceparent=current_trace(),
    )


def _fingerprint(params: dict[str, Any] | None, *request: object) -> str:
    """Return the fingerprint of a request as submitted, without defaults and saved parameters."""
    document = None if params is None else encode_document(params, field="params")
    return make_fingerprint("run", document, *request)


def _limit_for_fingerprint(limit: TimeLimit) -> float | str | None:
    """Return the limit as it appears in fingerprints, where None means that it was not given."""
    if limit is UNSET:
        return None
    return "none" if limit is None else limit


def _or_default(seconds: float | None, default_s: float | None) -> float | None:
    return default_s if seconds is None else seconds


def _check_existing_output(
    on_existing_output: OnExistingOutput | str | None, mode: RunMode | str
) -> OnExistingOutput:
    if on_existing_output is None:
        return OnExistingOutput.ASK
    if mode == RunMode.CONTINUE:
        problem = "cannot be set in the mode 'continue', which keeps the existing output"
        raise InvalidInput("on_existing_output", problem)
    return parse_enum(OnExistingOutput, on_existing_output, field="on_existing_output")
