"""For tests, ours and yours: a clock that you move, and commands with sensible defaults."""

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
from headway.testing.clock import FakeClock

__all__ = [
    "FakeClock",
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
]
