"""headway runs long work one-at-a-time per key, a-few-at-a-time overall, and never loses it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # For type checkers and editors. A test compares it with `_EXPORTS`.
    from headway.app import Headway as Headway
    from headway.core.command.run.cancel import CancelResult as CancelResult
    from headway.core.doctor.finding import Finding as Finding
    from headway.core.errors import ApprovalNotOpen as ApprovalNotOpen
    from headway.core.errors import ChildRefused as ChildRefused
    from headway.core.errors import ConfigurationError as ConfigurationError
    from headway.core.errors import DatabaseUnavailable as DatabaseUnavailable
    from headway.core.errors import Error as Error
    from headway.core.errors import FlowNotFound as FlowNotFound
    from headway.core.errors import IdempotencyConflict as IdempotencyConflict
    from headway.core.errors import InboxOverflow as InboxOverflow
    from headway.core.errors import InterruptNotOpen as InterruptNotOpen
    from headway.core.errors import InvalidFlow as InvalidFlow
    from headway.core.errors import InvalidInput as InvalidInput
    from headway.core.errors import KeyBusy as KeyBusy
    from headway.core.errors import KeyLocked as KeyLocked
    from headway.core.errors import LaneFull as LaneFull
    from headway.core.errors import MessageRefused as MessageRefused
    from headway.core.errors import OutcomeUnknown as OutcomeUnknown
    from headway.core.errors import OutputExists as OutputExists
    from headway.core.errors import RevisionConflict as RevisionConflict
    from headway.core.errors import RunFailed as RunFailed
    from headway.core.errors import RunNotActive as RunNotActive
    from headway.core.errors import RunNotFound as RunNotFound
    from headway.core.run.admission import OnConflict as OnConflict
    from headway.core.run.run import FilesOnCancel as FilesOnCancel
    from headway.core.run.run import OnExistingOutput as OnExistingOutput
    from headway.core.run.run import Recovery as Recovery
    from headway.core.run.run import RunMode as RunMode
    from headway.core.run.status import RunStatus as RunStatus
    from headway.core.run.window import Delivery as Delivery
    from headway.core.run.window import Refusal as Refusal
    from headway.process.dedicated import run_process as run_process
    from headway.services.context.blocking_context import BlockingChildRun as BlockingChildRun
    from headway.services.context.blocking_context import BlockingRunContext as BlockingRunContext
    from headway.services.context.run_context import ChildRun as ChildRun
    from headway.services.context.run_context import RunContext as RunContext
    from headway.services.submit.job import Backoff as Backoff
    from headway.services.submit.run_handle import RunHandle as RunHandle
    from headway.services.upkeep.examination import Examination as Examination
    from headway.services.upkeep.pruner import Retention as Retention

# Modules are imported on first use, so that `headway --help` loads no database library.
_EXPORTS: Final = {
    "headway.app": "Headway",
    "headway.core.command.run.cancel": "CancelResult",
    "headway.core.doctor.finding": "Finding",
    "headway.core.errors": (
        "ApprovalNotOpen ChildRefused ConfigurationError DatabaseUnavailable Error FlowNotFound"
        " IdempotencyConflict InboxOverflow InterruptNotOpen InvalidFlow InvalidInput KeyBusy"
        " KeyLocked LaneFull MessageRefused OutcomeUnknown OutputExists RevisionConflict"
        " RunFailed RunNotActive RunNotFound"
    ),
    "headway.core.run.admission": "OnConflict",
    "headway.core.run.run": "FilesOnCancel OnExistingOutput Recovery RunMode",
    "headway.core.run.status": "RunStatus",
    "headway.core.run.window": "Delivery Refusal",
    "headway.process.dedicated": "run_process",
    "headway.services.context.blocking_context": "BlockingChildRun BlockingRunContext",
    "headway.services.context.run_context": "ChildRun RunContext",
    "headway.services.submit.job": "Backoff",
    "headway.services.submit.run_handle": "RunHandle",
    "headway.services.upkeep.examination": "Examination",
    "headway.services.upkeep.pruner": "Retention",
}
_MODULES: Final = {name: module for module, names in _EXPORTS.items() for name in names.split()}

if not TYPE_CHECKING:  # `__getattr__` makes type checkers accept any misspelled name.
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
