"""The public test kit: clocks that a test moves, and builders with sensible defaults."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headway.testing.builders import (
        a_claim,
        a_message,
        a_run,
        a_run_id,
        a_schedule,
        a_submit,
        an_error,
        an_instance,
        claim_of,
        document,
    )
    from headway.testing.fake_clock import FakeClock
    from headway.testing.harness import open_for_test
    from headway.testing.stepping import SteppingClock

__all__ = [
    "FakeClock",
    "SteppingClock",
    "a_claim",
    "a_message",
    "a_run",
    "a_run_id",
    "a_schedule",
    "a_submit",
    "an_error",
    "an_instance",
    "claim_of",
    "document",
    "open_for_test",
]

# Imported on first use, because pytest imports this package with the plugin in every project.
_MODULES: Final = {
    "FakeClock": "fake_clock",
    "SteppingClock": "stepping",
    "open_for_test": "harness",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headway.testing.{_MODULES.get(name, 'builders')}"), name)
