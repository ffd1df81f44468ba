"""Log formats of `serve` and `worker`: text for people, and JSON for programs.

Both formats hide secrets.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from copy import copy
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headway.cli.output.printing import to_printable
from headway.log import HIDDEN, hide_named_secrets, is_secret, log_context
from headway.settings import Settings

# The attributes of every log record. All other attributes are fields of the event.
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    *("asctime", "color_message", "event", "message", "taskName"),
}
_TEXT_FORMAT: Final = "%(levelname)s %(name)s %(message)s"

# Libraries that log every statement or wake-up, which would hide headway's own records.
_VERBOSE_LOGGERS: Final = (
    *("aiohttp", "aiomysql", "aiosqlite", "alembic"),
    *("asyncio", "asyncpg", "redis", "sqlalchemy"),
)


def configure_logging(settings: Settings) -> None:
    """Log to stderr as configured.

    Only commands call this function. A program that imports headway configures logging itself.
    """
    handler = logging.StreamHandler()
    formatter_class = JsonFormatter if settings.log_format == "json" else TextFormatter
    handler.setFormatter(formatter_class(collect_secrets(settings)))
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.basicConfig(level=level, handlers=[handler])
    for name in _VERBOSE_LOGGERS if level <= logging.DEBUG else (*_VERBOSE_LOGGERS, "uvicorn"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def collect_secrets(settings: Settings) -> list[str]:
    """Return all texts that must not appear in a log, longest first."""
    own = [token.get_secret_value() for token in (settings.token, settings.worker_token) if token]
    tokens = [*own, *(token.get_secret_value().partition("=")[2] for token in settings.tokens)]
    addresses = (*settings.urls, settings.redis_url or "", settings.url or "")
    passwords = [password for address in addresses for password in _passwords(address)]
    return sorted({secret for secret in (*tokens, *passwords) if secret}, key=len, reverse=True)


def _passwords(address: str) -> Iterable[str]:
    """Return the password of a URL twice: as written, and percent-decoded."""
    try:
        password = urlsplit(address).password or ""
    except ValueError:
        return ()
    return password, unquote(password)


class TextFormatter(logging.Formatter):
    """Formats a record as one line, followed by its traceback in indented lines.

    No logged text can forge a line or move the cursor (S4).
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(_TEXT_FORMAT)
        self._secrets = tuple(secrets)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name.
        return to_printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging's name.
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  {to_printable(line)}" for line in lines)

    def format(self, record: logging.LogRecord) -> str:
        # Format a copy: logging caches the text of a traceback in the record for other handlers.
        record_copy = copy(record)
        record_copy.exc_text = None
        return _redact(self._secrets, super().format(record_copy))


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: `at`, `level`, `logger`, `event`, and the fields of the event.

    The JSON is one line. In records of other libraries the message is the `event`. Records that are
    logged while a run is executed have its `run_id`, `key` and `job`.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        own = {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        fields: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
            **log_context.get(),
            **own,
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(self._redact_fields(fields))

    def _redact_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: HIDDEN if is_secret(name, value) else self._redact_value(value)
            for name, value in fields.items()
        }

    def _redact_value(self, value: object) -> object:
        if value is None or isinstance(value, bool | int | float):
            return value
        return _redact(self._secrets, str(value))


def _redact(secrets: Iterable[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return hide_named_secrets(text)
