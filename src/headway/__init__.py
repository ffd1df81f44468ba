"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.core.command.run.cancel import CancelAnswer
    from headway.core.doctor.finding import Finding
    from headway.core.errors import (
        ChildRefused,
        ConfigurationError,
        DatabaseUnavailable,
        Error,
        FlowNotFound,
        IdempotencyConflict,
        InboxOverflow,
        InvalidFlow,
        InvalidInput,
        KeyBusy,
        KeyLocked,
        LaneFull,
        MessageRefused,
        NotWaiting,
        OutcomeUnknown,
        OutputExists,
        QuestionNotOpen,
        RevisionConflict,
        RunNotActive,
        RunNotFound,
    )
    from headway.core.run.admission import OnConflict
    from headway.core.run.run import Existing, Files, Mode, Recovery
    from headway.core.run.status import RunStatus
    from headway.core.run.window import Delivery, Refusal
    from headway.process import run_process
    from headway.services.context.blocking_context import BlockingChildRun, BlockingRunContext
    from headway.services.context.run_context import ChildRun, RunContext
    from headway.services.submit.job import Backoff
    from headway.services.submit.run_handle import RunFailed, RunHandle
    from headway.services.upkeep.examination import Examination
    from headway.services.upkeep.pruner import Retention

__all__ = [
    "Backoff",
    "BlockingChildRun",
    "BlockingRunContext",
    "CancelAnswer",
    "ChildRefused",
    "ChildRun",
    "ConfigurationError",
    "DatabaseUnavailable",
    "Delivery",
    "Error",
    "Examination",
    "Existing",
    "Files",
    "Finding",
    "FlowNotFound",
    "Headway",
    "IdempotencyConflict",
    "InboxOverflow",
    "InvalidFlow",
    "InvalidInput",
    "KeyBusy",
    "KeyLocked",
    "LaneFull",
    "MessageRefused",
    "Mode",
    "NotWaiting",
    "OnConflict",
    "OutcomeUnknown",
    "OutputExists",
    "QuestionNotOpen",
    "Recovery",
    "Refusal",
    "Retention",
    "RevisionConflict",
    "RunContext",
    "RunFailed",
    "RunHandle",
    "RunNotActive",
    "RunNotFound",
    "RunStatus",
    "run_process",
]

# Loaded when first asked for: `headway --help` needs no database library.
_HOMES: Final = {
    "Backoff": "services.submit.job",
    "BlockingChildRun": "services.context.blocking_context",
    "BlockingRunContext": "services.context.blocking_context",
    "CancelAnswer": "core.command.run.cancel",
    "ChildRun": "services.context.run_context",
    "Existing": "core.run.run",
    "Examination": "services.upkeep.examination",
    "Files": "core.run.run",
    "Finding": "core.doctor.finding",
    "Headway": "app",
    "Mode": "core.run.run",
    "OnConflict": "core.run.admission",
    "Recovery": "core.run.run",
    "Delivery": "core.run.window",
    "Refusal": "core.run.window",
    "Retention": "services.upkeep.pruner",
    "RunContext": "services.context.run_context",
    "RunFailed": "services.submit.run_handle",
    "RunHandle": "services.submit.run_handle",
    "RunStatus": "core.run.status",
    "run_process": "process",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headway.{_HOMES.get(name, 'core.errors')}"), name)
