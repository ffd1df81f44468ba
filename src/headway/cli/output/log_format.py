"""What `serve` and `worker` log: lines for people, or JSON for programs. Secrets are in neither."""

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

# What every record has; the rest are the fields of this one.
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    *("asctime", "color_message", "event", "message", "taskName"),
}
_TEXT_FORMAT: Final = "%(levelname)s %(name)s %(message)s"

# Who would tell of every statement and every wake-up, so that nobody would see our own words.
_VERBOSE_LOGGERS: Final = (
    *("aiohttp", "aiomysql", "aiosqlite", "alembic"),
    *("asyncio", "asyncpg", "redis", "sqlalchemy"),
)


def configure_logging(settings: Settings) -> None:
    """To stderr, as configured, for whole programs: a library leaves that to its users."""
    handler = logging.StreamHandler()
    kind = JsonFormatter if settings.log_format == "json" else TextFormatter
    handler.setFormatter(kind(collect_secrets(settings)))
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    logging.basicConfig(level=level, handlers=[handler])
    for name in _VERBOSE_LOGGERS if level <= logging.DEBUG else (*_VERBOSE_LOGGERS, "uvicorn"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def collect_secrets(settings: Settings) -> list[str]:
    """What must not be told, in whatever words it comes; the longest first."""
    own = (settings.token or "", settings.worker_token or "")
    tokens = [*own, *(given.partition("=")[2] for given in settings.tokens)]
    addresses = (*settings.urls, settings.redis_url or "", settings.url or "")
    passwords = [word for address in addresses for word in _passwords(address)]
    return sorted({word for word in (*tokens, *passwords) if word}, key=len, reverse=True)


def _passwords(address: str) -> Iterable[str]:
    """As it is written there, and as it is meant."""
    try:
        password = urlsplit(address).password or ""
    except ValueError:
        return ()
    return password, unquote(password)


class TextFormatter(logging.Formatter):
    """A line for each record, and its traceback in lines that are set in.

    Whoever logs, nothing of what is said can forge a line or move a cursor (S4).
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
        # Of a copy: logging keeps the text of a traceback for the other handlers.
        own = copy(record)
        own.exc_text = None
        return _redact(self._secrets, super().format(own))


class JsonFormatter(logging.Formatter):
    """An object on each line: `at`, `level`, `logger`, `event`, and the fields of the event.

    A line that is not headway's own has its words as `event`. What is logged while a run is
    executed has its `run_id`, `key` and `job`.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        own = {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None) or record.getMessage(),
            **log_context.get(),
            **own,
        }
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(self._redact_fields(said))

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
