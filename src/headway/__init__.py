"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.app import Headway, RunFailed, RunHandle
    from headway.services.context import RunContext

__all__ = ["Headway", "RunContext", "RunFailed", "RunHandle"]

# Loaded when first asked for: `headway --help` needs no database library.
_HOMES: Final = {
    "Headway": "headway.app",
    "RunContext": "headway.services.context",
    "RunFailed": "headway.app",
    "RunHandle": "headway.app",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
