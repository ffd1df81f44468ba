"""The public test kit: clocks that a test moves, and builders with sensible defaults."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # For type checkers and editors. A test compares it with `_EXPORTS`.
    from headway.testing.builders import a_claim as a_claim
    from headway.testing.builders import a_message as a_message
    from headway.testing.builders import a_run as a_run
    from headway.testing.builders import a_run_id as a_run_id
    from headway.testing.builders import a_schedule as a_schedule
    from headway.testing.builders import a_submit as a_submit
    from headway.testing.builders import an_error as an_error
    from headway.testing.builders import an_instance as an_instance
    from headway.testing.builders import claim_of as claim_of
    from headway.testing.builders import document as document
    from headway.testing.fake_clock import FakeClock as FakeClock
    from headway.testing.harness import open_for_test as open_for_test
    from headway.testing.stepping import SteppingClock as SteppingClock

# Imported on first use, because pytest imports this package with the plugin in every project.
_EXPORTS: Final = {
    "headway.testing.builders": (
        "a_claim a_message a_run a_run_id a_schedule a_submit an_error an_instance claim_of"
        " document"
    ),
    "headway.testing.fake_clock": "FakeClock",
    "headway.testing.harness": "open_for_test",
    "headway.testing.stepping": "SteppingClock",
}
_MODULES: Final = {name: module for module, names in _EXPORTS.items() for name in names.split()}

if not TYPE_CHECKING:  # `__getattr__` makes type checkers accept any misspelled name.
    __all__ = list(_MODULES)

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
