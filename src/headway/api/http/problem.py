"""Errors as `application/problem+json`: a code, a sentence, and what a program can act on (S9).

There is no `type`: `code` tells kinds apart, and so `title` is no more than the status in words,
as RFC 9457 has it.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException

from headway.core.errors import (
    ApprovalNotOpen,
    DatabaseBehind,
    DatabaseFileLost,
    Error,
    FlowNotFound,
    IdempotencyConflict,
    InboxOverflow,
    InfrastructureError,
    InterruptNotOpen,
    InvalidInput,
    KeyBusy,
    KeyLocked,
    LaneFull,
    MessageRefused,
    OutcomeUnknown,
    OutputExists,
    RevisionConflict,
    RunNotActive,
    RunNotFound,
    TooLarge,
)
from headway.log import event_log
from headway.write_tracker import is_written

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1

log = event_log(__name__)


class Problem(HTTPException):
    """`more` has members that a program can act on, such as the run that is in the way."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.code = code
        self.extra = more or {}

    @property
    def all_headers(self) -> dict[str, str]:
        return {"content-type": MEDIA_TYPE, **(self.headers or {})}

    def body(self) -> bytes:
        said = {
            "title": HTTPStatus(self.status_code).phrase,
            "code": self.code,
            "status": self.status_code,
            "detail": self.detail,
            **self.extra,
        }
        # A sentence may quote what the caller has sent, lone surrogates included.
        return json.dumps(said).encode()


_PROBLEMS_BY_ERROR: Final[Mapping[type[Error], tuple[int, str, tuple[str, ...]]]] = {
    TooLarge: (413, "too_large", ("place",)),
    InvalidInput: (422, "invalid_input", ("place",)),
    KeyBusy: (409, "key_busy", ("active_run_id",)),
    OutputExists: (409, "output_exists", ()),
    InterruptNotOpen: (409, "stale", ()),
    KeyLocked: (409, "key_locked", ("active_run_id",)),
    MessageRefused: (409, "message_refused", ("run_id", "reason", "can_wait")),
    RunNotActive: (409, "run_not_active", ("run_id", "reason")),
    IdempotencyConflict: (422, "idempotency_conflict", ("run_id",)),
    RevisionConflict: (412, "revision_conflict", ("revision",)),
    FlowNotFound: (404, "flow_not_found", ("flow", "version")),
    ApprovalNotOpen: (409, "stale", ("run_id",)),
    RunNotFound: (404, "run_not_found", ("run_id",)),
    DatabaseFileLost: (503, "database_file_lost", ()),
    LaneFull: (429, "lane_full", ("lane",)),
    InboxOverflow: (429, "inbox_full", ("run_id",)),
}
"""The status, the code, and which of the error's fields a program can act on."""


def to_problem(error: Error) -> Problem:
    """How an error is told to a client. What concerns only the operator goes to the log."""
    for kind in type(error).__mro__:
        if kind in _PROBLEMS_BY_ERROR:
            status, code, fields = _PROBLEMS_BY_ERROR[kind]
            more = {name: getattr(error, name) for name in fields}
            return _make_problem(status, code, str(error), **more)
    return (
        _to_outage_problem(error)
        if isinstance(error, InfrastructureError)
        else internal_error(error)
    )


def unauthorized(detail: str) -> Problem:
    headers = {"www-authenticate": 'Bearer realm="headway"'}
    return Problem(401, "unauthorized", detail, headers=headers)


def too_many_requests(code: str, detail: str) -> Problem:
    """It was asked for too often, and may be asked for again soon."""
    return _make_problem(429, code, detail)


def headers_too_large() -> Problem:
    return _make_problem(431, "headers_too_large", "the address or the headers are too large")


def unavailable(detail: str, *, code: str = "unavailable") -> Problem:
    """It cannot be done now, and soon can."""
    return _make_problem(503, code, detail)


def _make_problem(status: int, code: str, detail: str, **more: Any) -> Problem:
    is_passing = status in (429, 503)
    headers = {"retry-after": str(RETRY_AFTER_S)} if is_passing else {}
    return Problem(status, code, detail, more, headers)


def _to_outage_problem(error: InfrastructureError) -> Problem:
    """The reasons name addresses and files, so they are logged, under an id that is answered."""
    error_id = secrets.token_hex(8)
    log.warning("request_failed", extra={"error_id": error_id, "reason": str(error)})
    if isinstance(error, OutcomeUnknown) or is_written():
        detail = (
            "something that headway needs went away, and what you asked for may have been done all"
            " the same; look before you repeat it, or where an Idempotency-Key is heeded repeat it"
            " with the same"
        )
        return _make_problem(503, "outcome_unknown", detail, error_id=error_id)
    if isinstance(error, DatabaseBehind):
        return _make_problem(503, "database_behind", error.ADVICE, error_id=error_id)
    detail = "something that headway needs does not answer; nothing was changed, try again"
    return _make_problem(503, "unavailable", detail, error_id=error_id)


def internal_error(error: BaseException) -> Problem:
    """A mistake of ours: the client gets an id, the log the rest."""
    error_id = secrets.token_hex(8)
    log.error("request_broke", exc_info=error, extra={"error_id": error_id})
    detail = f"headway has made a mistake; its log tells more under {error_id}"
    return Problem(500, "internal", detail, {"error_id": error_id})


def invalid_request(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """All faults of a request at once, each with its place; the first one's is the sentence."""
    faults = [
        {"place": _format_location(fault["loc"]), "problem": fault["msg"]} for fault in errors
    ]
    place, problem = faults[0]["place"], faults[0]["problem"]
    detail = f"{place}: {problem[:1].lower()}{problem[1:]}"
    return Problem(422, "invalid_input", detail, {"place": place, "faults": faults})


def _format_location(where: tuple[Any, ...]) -> str:
    named = where[1:] if len(where) > 1 else where
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in named]
    return "".join(parts).lstrip(".")
