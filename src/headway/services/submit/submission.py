"""What a caller wants, made into the command that asks for it."""

from typing import Any

from headway.core.command.run.idempotency import fingerprint_of
from headway.core.command.run.submit import Submit
from headway.core.document import check_name, check_word, encode_document
from headway.core.duration import UNSET, TimeLimit, limit_or
from headway.core.errors import InvalidInput
from headway.core.ids import Key, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import Existing, Mode
from headway.core.secret import is_veiled
from headway.ports.run_reader import RunReader
from headway.services.submit.job import Job, encoded_params
from headway.services.submit.saved_keys import saved_params
from headway.trace import current_trace


async def submission_of(
    job: Job,
    runs: RunReader,
    run_id: RunId,
    *,
    key: str | None,
    params: dict[str, Any] | None,
    mode: Mode | str,
    lane: str | None,
    timeout_s: TimeLimit,
    queue_timeout_s: float | None,
    on_conflict: OnConflict | str,
    existing: Existing | str | None,
    idempotency_key: str | None,
    by: str,
) -> Submit:
    """The command, checked; where the caller says nothing, what was saved or what the job says."""
    checked_key = Key(run_id if key is None else check_name(key, place="key"))
    taken, row_revision, kept = params, None, None
    if params is None and key is not None:
        taken, row_revision = await saved_params(runs, checked_key, job=job.name)
    elif isinstance(params, dict) and is_veiled(params):
        kept, row_revision = await saved_params(runs, checked_key, job=job.name)
    said = (job.name, key, mode, lane, on_conflict, existing, _said(timeout_s), queue_timeout_s)
    return Submit(
        run_id=run_id,
        key=checked_key,
        job=job.name,
        lane=job.lane if lane is None else LaneName(lane),
        params=encoded_params(job, taken, kept=kept or {}),
        row_revision=row_revision,
        timeout_s=limit_or(timeout_s, job.timeout_s),
        queue_timeout_s=_given(queue_timeout_s, job.queue_timeout_s),
        recovery=job.recovery,
        on_conflict=check_word(OnConflict, on_conflict, place="on_conflict"),
        mode=check_word(Mode, mode, place="mode"),
        existing=_choice(existing, mode),
        idempotency_key=idempotency_key,
        by=by,
        fingerprint="" if idempotency_key is None else _fingerprint(params, *said),
        traceparent=current_trace(),
    )


def _fingerprint(params: dict[str, Any] | None, *said: object) -> str:
    """Before anything is filled in: neither defaults nor what was saved for the key."""
    given = None if params is None else encode_document(params, place="params")
    return fingerprint_of("run", given, *said)


def _said(limit: TimeLimit) -> float | str | None:
    """Return the limit as a fingerprint has it, where None has always meant not given."""
    if limit is UNSET:
        return None
    return "none" if limit is None else limit


def _given(seconds: float | None, usual_s: float | None) -> float | None:
    return usual_s if seconds is None else seconds


def _choice(existing: Existing | str | None, mode: Mode | str) -> Existing:
    if existing is None:
        return Existing.ASK
    if mode == Mode.CONTINUE:
        raise InvalidInput("existing", "is for a start; a run that continues goes on with it")
    return check_word(Existing, existing, place="existing")
