"""Structured logging: a constant event name and its fields, as text and record attributes.

`log.info("run_claimed", extra={"run_id": "r1"})` is logged as `run_claimed run_id=r1` by any
handler. Handlers that store fields separately use `record.event` and `record.run_id`.

An execution sets `log_context`, so that everything logged during the execution, also by the job's
own code and by other libraries, can be attributed to its run.
"""

import logging
import re
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

# A value that contains one of these is quoted, so that its start and end are unambiguous.
_SEPARATORS: Final = frozenset(" =\"'\\")
HIDDEN: Final = "(secret)"
SECRET_NAME_PATTERN: Final = (
    r"(?:authorization|cookie|passphrase|password|passwd|secret|token"  # noqa: S105  # A pattern.
    r"|(?:access|api|private|secret)[_-]?key)"
)
"""A pattern for the end of a secret's name. It matches `db_password`, not `token_count`.

Match it without regard to case.
"""
_SECRET_NAME: Final = re.compile(rf"(?i){SECRET_NAME_PATTERN}\Z")
# Common forms: `Authorization: Bearer …`, `db_password=…`, `"token": "…"`.
_NAMED_SECRET: Final = re.compile(
    rf"""(?i)({SECRET_NAME_PATTERN})(["']?\s*[=:]\s*)"""
    r"""((?:bearer|basic)\s+\S+|"[^"]*"|'[^']*'|[^\s,;&]+)"""
)
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})

log_context: Final[ContextVar[Mapping[str, str]]] = ContextVar("log_context", default=_NO_FIELDS)
"""The log fields of the execution in this context, such as `run_id`, `key` and `job`."""


class EventLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that appends the fields of `extra` to the message.

    Control characters, which could forge a log line or move a terminal's cursor, are escaped. The
    value of a field is hidden if the field's name is that of a secret (S4).
    """

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        fields = dict(kwargs.get("extra") or {})
        kwargs["extra"] = {"event": msg, **fields}
        return " ".join(
            (msg, *(f"{name}={_format_value(name, value)}" for name, value in fields.items()))
        ), kwargs


def event_log(name: str) -> EventLog:
    return EventLog(logging.getLogger(name))


def hide_named_secrets(text: str) -> str:
    """Replace every value in `text` that follows the name of a secret."""
    return _NAMED_SECRET.sub(rf"\1\2{HIDDEN}", text)


def is_secret(name: str, value: object) -> bool:
    """Return True if `name` is the name of a secret, unless the value is a bool or None."""
    return not (value is None or isinstance(value, bool)) and bool(_SECRET_NAME.search(name))


def _format_value(name: str, value: object) -> str:
    if is_secret(name, value):
        return HIDDEN
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    is_plain = text and text.isprintable() and _SEPARATORS.isdisjoint(text)
    return text if is_plain else repr(text)
