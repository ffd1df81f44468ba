"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.core.command.run.cancel import CancelResult
    from headway.core.doctor.finding import Finding
    from headway.core.errors import (
        ApprovalNotOpen,
        ChildRefused,
        ConfigurationError,
        DatabaseUnavailable,
        Error,
        FlowNotFound,
        IdempotencyConflict,
        InboxOverflow,
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
        RunFailed,
        RunNotActive,
        RunNotFound,
    )
    from headway.core.run.admission import OnConflict
    from headway.core.run.run import FilesOnCancel, OnExistingOutput, Recovery, RunMode
    from headway.core.run.status import RunStatus
    from headway.core.run.window import Delivery, Refusal
    from headway.process.dedicated import run_process
    from headway.services.context.blocking_context import BlockingChildRun, BlockingRunContext
    from headway.services.context.run_context import ChildRun, RunContext
    from headway.services.submit.job import Backoff
    from headway.services.submit.run_handle import RunHandle
    from headway.services.upkeep.examination import Examination
    from headway.services.upkeep.pruner import Retention

__all__ = [
    "ApprovalNotOpen",
    "Backoff",
    "BlockingChildRun",
    "BlockingRunContext",
    "CancelResult",
    "ChildRefused",
    "ChildRun",
    "ConfigurationError",
    "DatabaseUnavailable",
    "Delivery",
    "Error",
    "Examination",
    "FilesOnCancel",
    "Finding",
    "FlowNotFound",
    "Headway",
    "IdempotencyConflict",
    "InboxOverflow",
    "InterruptNotOpen",
    "InvalidFlow",
    "InvalidInput",
    "KeyBusy",
    "KeyLocked",
    "LaneFull",
    "MessageRefused",
    "OnConflict",
    "OnExistingOutput",
    "OutcomeUnknown",
    "OutputExists",
    "Recovery",
    "Refusal",
    "Retention",
    "RevisionConflict",
    "RunContext",
    "RunFailed",
    "RunHandle",
    "RunMode",
    "RunNotActive",
    "RunNotFound",
    "RunStatus",
    "run_process",
]

# Modules are imported on first use, so that `headway --help` loads no database library.
_EXPORT_MODULES: Final = {
    "Backoff": "services.submit.job",
    "BlockingChildRun": "services.context.blocking_context",
    "BlockingRunContext": "services.context.blocking_context",
    "CancelResult": "core.command.run.cancel",
    "ChildRun": "services.context.run_context",
    "OnExistingOutput": "core.run.run",
    "Examination": "services.upkeep.examination",
    "FilesOnCancel": "core.run.run",
    "Finding": "core.doctor.finding",
    "Headway": "app",
    "RunMode": "core.run.run",
    "OnConflict": "core.run.admission",
    "Recovery": "core.run.run",
    "Delivery": "core.run.window",
    "Refusal": "core.run.window",
    "Retention": "services.upkeep.pruner",
    "RunContext": "services.context.run_context",
    "RunFailed": "core.errors",
    "RunHandle": "services.submit.run_handle",
    "RunStatus": "core.run.status",
    "run_process": "process.dedicated",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headway.{_EXPORT_MODULES.get(name, 'core.errors')}"), name)
