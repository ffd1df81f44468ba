"""The one way in which headway logs: a constant event, and its fields, as text and as attributes.

`log.info("run_claimed", extra={"run_id": "r1"})` reads `run_claimed run_id=r1` under any handler.
Whoever keeps records apart finds `record.event` and `record.run_id`.

What is executed sets `about`: whatever is logged meanwhile, by whomever, is of that run.
"""

import logging
import re
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

# Beside these a value is shown in quotes, so that it is plain where it begins and ends.
_SEPARATORS: Final = frozenset(" =\"'\\")
HIDDEN: Final = "(secret)"
SECRET_NAME_PATTERN: Final = (
    r"(?:authorization|cookie|passphrase|password|passwd|secret|token"
    r"|(?:access|api|private|secret)[_-]?key)"
)
"""How the name of a secret ends, in any case: `db_password` is one, `token_count` is none."""
_SECRET_NAME: Final = re.compile(rf"(?i){SECRET_NAME_PATTERN}\Z")
# Common forms: `Authorization: Bearer …`, `db_password=…`, `"token": "…"`.
_NAMED_SECRET: Final = re.compile(
    rf"""(?i)({SECRET_NAME_PATTERN})(["']?\s*[=:]\s*)"""
    r"""((?:bearer|basic)\s+\S+|"[^"]*"|'[^']*'|[^\s,;&]+)"""
)
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})

log_context: Final[ContextVar[Mapping[str, str]]] = ContextVar("about", default=_NO_FIELDS)
"""Fields of what is going on in this context, such as `run_id`, `key` and `job`."""


class EventLog(logging.LoggerAdapter[logging.Logger]):
    """Says `extra` in words too: what could forge a line or move a cursor is escaped, and what
    has the name of a secret is not said (S4).
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
    """Replace every value in `text` that is written beside the name of a secret."""
    return _NAMED_SECRET.sub(rf"\1\2{HIDDEN}", text)


def is_secret(name: str, value: object) -> bool:
    """By its name; a yes or a no, or nothing at all, is none."""
    return not (value is None or isinstance(value, bool)) and bool(_SECRET_NAME.search(name))


def _format_value(name: str, value: object) -> str:
    if is_secret(name, value):
        return HIDDEN
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    is_plain = text and text.isprintable() and _SEPARATORS.isdisjoint(text)
    return text if is_plain else repr(text)
