"""Idempotency: requests with the same idempotency key have the effect of one request (I6)."""

import hashlib
from dataclasses import dataclass

from headway.core.batch_state import BatchState, IdempotencyRecord
from headway.core.ids import RunId


@dataclass(frozen=True, slots=True)
class Repeated:
    """The idempotency key was used before, by the same request. `run_id` is that request's run."""

    run_id: RunId


@dataclass(frozen=True, slots=True)
class IdempotencyMismatch:
    """The idempotency key was used before, by a different request."""

    run_id: RunId


def make_fingerprint(*arguments: object) -> str:
    """Return a digest of a request's arguments as text. None stands for an omitted argument.

    Pass the arguments of the caller, without defaults: a default may be different when the request
    is repeated.
    """
    texts = [None if argument is None else str(argument) for argument in arguments]
    return hashlib.sha256(repr(texts).encode()).hexdigest()


def find_earlier(
    batch: BatchState, idempotency_key: str, fingerprint: str
) -> Repeated | IdempotencyMismatch | None:
    """Compare a request with the earlier request that used its idempotency key.

    Return None if the key is new. Return Repeated if both requests have the same fingerprint, and
    IdempotencyMismatch if they do not.
    """
    earlier = batch.idempotency_records.get(idempotency_key)
    if earlier is None:
        return None
    is_same = earlier.fingerprint == fingerprint
    return Repeated(earlier.run_id) if is_same else IdempotencyMismatch(earlier.run_id)


def save_record(batch: BatchState, idempotency_key: str, fingerprint: str, run_id: RunId) -> None:
    record = IdempotencyRecord(idempotency_key, run_id, fingerprint, batch.now)
    batch.idempotency_records[idempotency_key] = record
    batch.changes.idempotency_records_added[idempotency_key] = record
