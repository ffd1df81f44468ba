"""Errors as `application/problem+json`: a code, a sentence, and data for programs (S9).

There is no `type` member: `code` distinguishes the errors. Without a `type`, RFC 9457 requires
`title` to be the reason phrase of the status.
"""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

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
    InvalidFlow,
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
    format_problem,
)
from headway.log import event_log
from headway.ports.write_tracker import is_written

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
_PROBLEMS_BY_TYPE: Final[Mapping[str, str]] = {
    "extra_forbidden": "is not a field of this request",
    "missing": "is missing",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be a string",
}
"""What is wrong with a field, by pydantic's error type. Other errors keep pydantic's text."""

log = event_log(__name__)


class Problem(HTTPException):
    """An error response. `members` are extra JSON members for programs, such as `run_id`."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        members: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.code = code
        self.extra = members or {}

    @property
    def all_headers(self) -> dict[str, str]:
        return {"content-type": MEDIA_TYPE, **(self.headers or {})}

    def body(self) -> bytes:
        document = {
            "title": HTTPStatus(self.status_code).phrase,
            "code": self.code,
            "status": self.status_code,
            "detail": self.detail,
            **self.extra,
        }
        # `detail` may quote input with lone surrogates, so the JSON is written as ASCII.
        return json.dumps(document).encode()


class _ErrorResponse(NamedTuple):
    status: int
    code: str
    members: Mapping[str, str] = {}
    """The names of extra JSON members, each with the error's attribute that has its value."""


_RUN_MEMBER: Final = {"run_id": "run_id"}
_RESPONSES_BY_ERROR: Final[Mapping[type[Error], _ErrorResponse]] = {
    TooLarge: _ErrorResponse(413, "too_large", {"path": "field"}),
    InvalidInput: _ErrorResponse(422, "invalid_input", {"path": "field"}),
    InvalidFlow: _ErrorResponse(422, "invalid_flow", {"path": "field"}),
    KeyBusy: _ErrorResponse(409, "key_busy", {"active_run_id": "active_run_id"}),
    OutputExists: _ErrorResponse(409, "output_exists"),
    InterruptNotOpen: _ErrorResponse(409, "stale"),
    KeyLocked: _ErrorResponse(409, "key_locked", {"active_run_id": "active_run_id"}),
    MessageRefused: _ErrorResponse(
        409, "message_refused", {**_RUN_MEMBER, "reason": "reason", "can_wait": "can_wait"}
    ),
    RunNotActive: _ErrorResponse(409, "run_not_active", {**_RUN_MEMBER, "reason": "reason"}),
    IdempotencyConflict: _ErrorResponse(422, "idempotency_conflict", _RUN_MEMBER),
    RevisionConflict: _ErrorResponse(412, "revision_conflict", {"revision": "revision"}),
    FlowNotFound: _ErrorResponse(404, "flow_not_found", {"flow": "flow", "version": "version"}),
    ApprovalNotOpen: _ErrorResponse(409, "stale", _RUN_MEMBER),
    RunNotFound: _ErrorResponse(404, "run_not_found", _RUN_MEMBER),
    DatabaseFileLost: _ErrorResponse(503, "database_file_lost"),
    LaneFull: _ErrorResponse(429, "lane_full", {"lane": "lane"}),
    InboxOverflow: _ErrorResponse(429, "inbox_full", _RUN_MEMBER),
}


def to_problem(error: Error) -> Problem:
    """Convert an error to a response. Details for the operator go to the log only."""
    for kind in type(error).__mro__:
        if kind in _RESPONSES_BY_ERROR:
            response = _RESPONSES_BY_ERROR[kind]
            members = {
                member: getattr(error, attribute) for member, attribute in response.members.items()
            }
            if isinstance(error, InvalidInput):
                members["errors"] = issue_views(error.errors)
            return _make_problem(response.status, response.code, str(error), **members)
    return (
        _to_outage_problem(error)
        if isinstance(error, InfrastructureError)
        else internal_error(error)
    )


def unauthorized(detail: str) -> Problem:
    headers = {"www-authenticate": 'Bearer realm="headway"'}
    return Problem(401, "unauthorized", detail, headers=headers)


def too_many_requests(code: str, detail: str) -> Problem:
    """Return a 429 Problem with `Retry-After`."""
    return _make_problem(429, code, detail)


def headers_too_large() -> Problem:
    return _make_problem(431, "headers_too_large", "the URL or the headers are too large")


def unavailable(detail: str, *, code: str = "unavailable") -> Problem:
    """Return a 503 Problem with `Retry-After`."""
    return _make_problem(503, code, detail)


def _make_problem(status: int, code: str, detail: str, **members: Any) -> Problem:
    is_temporary = status in (429, 503)
    headers = {"retry-after": str(RETRY_AFTER_S)} if is_temporary else {}
    return Problem(status, code, detail, members, headers)


def _to_outage_problem(error: InfrastructureError) -> Problem:
    """Return a 503 Problem with an error id, and log the reason under that id.

    The reason may contain addresses and file names, which clients must not see.
    """
    error_id = secrets.token_hex(8)
    log.warning("request_failed", extra={"error_id": error_id, "reason": str(error)})
    if isinstance(error, OutcomeUnknown) or is_written():
        detail = (
            "a service that headway depends on failed, and the request may have been carried out;"
            " check before you repeat it, or repeat it with the same Idempotency-Key where the call"
            " accepts one"
        )
        return _make_problem(503, "outcome_unknown", detail, error_id=error_id)
    if isinstance(error, DatabaseBehind):
        return _make_problem(503, "database_behind", error.ADVICE, error_id=error_id)
    detail = "a service that headway depends on does not answer; nothing was changed, try again"
    return _make_problem(503, "unavailable", detail, error_id=error_id)


def internal_error(error: BaseException) -> Problem:
    """Return a 500 Problem with an error id, and log the exception under that id."""
    error_id = secrets.token_hex(8)
    log.error("request_crashed", exc_info=error, extra={"error_id": error_id})
    detail = f"internal error; see the server log, error id {error_id}"
    return Problem(500, "internal", detail, {"error_id": error_id})


def invalid_request(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """Return a 422 Problem that lists all pydantic errors. `detail` describes the first one."""
    issues = [(_format_path(error["loc"]), _describe_problem(error)) for error in errors]
    path, problem = issues[0]
    members = {"path": path, "errors": issue_views(issues)}
    return Problem(422, "invalid_input", format_problem(path, problem), members)


def issue_views(issues: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return errors or warnings as JSON objects with the `path` of a field and its `problem`."""
    return [{"path": path, "problem": problem} for path, problem in issues]


def _describe_problem(error: Mapping[str, Any]) -> str:
    text: str = error["msg"]
    return _PROBLEMS_BY_TYPE.get(error.get("type", ""), text[:1].lower() + text[1:])


def _format_path(location: tuple[Any, ...]) -> str:
    """Format a pydantic location as a path, without its first part (`body`, `query` …)."""
    path = location[1:] if len(location) > 1 else location
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).lstrip(".")
