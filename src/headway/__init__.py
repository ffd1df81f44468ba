"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.services.blocking import BlockingRunContext
    from headway.services.context import RunContext
    from headway.services.handle import RunFailed, RunHandle
    from headway.services.job import Backoff
    from headway.services.retention import Retention

__all__ = [
    "Backoff",
    "BlockingRunContext",
    "Headway",
    "Retention",
    "RunContext",
    "RunFailed",
    "RunHandle",
]

# Loaded when first asked for: `headway --help` needs no database library.
_HOMES: Final = {
    "Backoff": "headway.services.job",
    "BlockingRunContext": "headway.services.blocking",
    "Headway": "headway.app",
    "Retention": "headway.services.retention",
    "RunContext": "headway.services.context",
    "RunFailed": "headway.services.handle",
    "RunHandle": "headway.services.handle",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
