"""The contract of the runtime store: its operations, their answers and its limits."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from headway.core.document import Document
from headway.core.errors import ConfigurationError
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.core.timeouts import EXECUTION_TIMEOUT_S, LEASE_TTL_S, PERMISSION_TIMEOUT_S
from headway.ports.hint_bus import HintBus

CANCELED_ANSWER: Final = Document('{"approved":false,"reason":"cancelled"}')
"""The answer to an open interrupt when its run is to be canceled."""
SHUTDOWN_ANSWER: Final = Document('{"approved":false,"reason":"shutdown"}')
"""The answer to a waiting caller when its process stops."""


class Phase(StrEnum):
    """The phase of an interactive run's engine."""

    STREAMING = "streaming"
    COMPACTING = "compacting"
    """The engine accepts no messages until it streams again."""


class ResolveAnswer(StrEnum):
    RESOLVED = "resolved"
    STALE = "stale"
    """The run has open interrupts, but this one is answered or closed, or was never opened."""
    NOT_WAITING = "not_waiting"
    """The run has no open interrupt."""


class InjectAnswer(StrEnum):
    INJECTED = "injected"
    NO_ACTIVE_RUN = "no_active_run"
    """The run does not hold the lease of its key."""
    NOT_STREAMING = "not_streaming"
    """The run's engine has not started, or its loop has ended."""
    COMPACTING = "compacting"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLimits:
    """Lifetimes and maximum counts of the entries in the runtime store.

    In the in-memory store no entry expires. The lease, the execution time of a run and the time
    to answer are three independent timeouts.
    """

    lease_ttl_s: float = LEASE_TTL_S
    permission_timeout_s: float = PERMISSION_TIMEOUT_S
    execution_timeout_s: float = EXECUTION_TIMEOUT_S
    message_count_max: int = 1_000
    """The maximum number of messages per run that are not drained yet."""
    interrupt_count_max: int = 10_000
    """The maximum number of interrupts per run, counting open and answered ones."""

    def __post_init__(self) -> None:
        for name in ("lease_ttl_s", "permission_timeout_s", "execution_timeout_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name} must be a number of seconds above 0")
        if self.permission_timeout_s >= self.execution_timeout_s:
            raise ConfigurationError(
                f"permission_timeout_s ({self.permission_timeout_s:g}) must be below "
                f"execution_timeout_s ({self.execution_timeout_s:g}); otherwise a run times out "
                "before it can receive a late answer"
            )


class RuntimeStore(HintBus, Protocol):
    """The runtime store that all instances share. Any call may raise RuntimeUnavailable.

    A call that fails does so within seconds. A call that raised RuntimeUnavailable may have taken
    effect. Every call can be repeated, but a repeated `inject_message` may add its message twice,
    and a repeated `resolve_interrupt` or `drain_messages` may find that the first call took effect.

    The interactive flag is part of the lease: the flag is renewed and released with the lease. The
    store itself sends hints for the cancels, answers and messages that pass through it. Every hint
    also makes the waiting callers of its run check again.
    """

    async def mark_interactive(
        self, key: Key, claim: Claim, phase: Phase = Phase.STREAMING
    ) -> bool:
        """Record that the run's engine accepts messages. Return False if the claim has no lease.

        This interactive flag expires with the lease at the latest. Messages that an earlier claim
        of the run did not drain stay for this claim.
        """
        ...

    async def clear_interactive(self, key: Key, claim: Claim) -> tuple[Document, ...]:
        """Stop accepting messages, and return the accepted ones that were not drained, in order.

        No message is accepted until `mark_interactive` is called again.
        """
        ...

    async def create_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> bool:
        """Open an interrupt before announcing it. Return False if the run has too many interrupts.

        An interrupt that is already open or answered does not change, so that the next claim of the
        run finds the answer. In a run that is to be canceled, a new interrupt is answered at
        once.
        """
        ...

    async def wait_for_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> Document | None:
        """Wait for the answer to an interrupt. Return None after `timeout_s`.

        The default of `timeout_s` is `permission_timeout_s`. The interrupt is opened if needed.
        CANCELED_ANSWER and SHUTDOWN_ANSWER are answers too. None is also returned if the run is
        cleaned up during the wait. An interrupt without an answer is closed when this returns, so
        each interrupt has one waiting caller at a time. Raise RuntimeUnavailable if the store is
        unavailable when the wait begins or ends. An outage in between only delays the answer.
        """
        ...

    async def resolve_interrupt(
        self, run_id: RunId, call_id: str, answer: Document
    ) -> ResolveAnswer:
        """Answer an open interrupt once, and wake the waiting caller."""
        ...

    async def request_cancel(self, run_id: RunId) -> None:
        """Set the run's cancel flag, and answer all its open interrupts with CANCELED_ANSWER.

        Call this only for a run that is being executed, because the run's cleanup removes the flag.
        """
        ...

    async def is_cancelled(self, run_id: RunId) -> bool: ...

    async def inject_message(self, key: Key, run_id: RunId, message: Document) -> InjectAnswer:
        """Queue a message for the run's engine, if the engine accepts messages."""
        ...

    async def drain_messages(self, claim: Claim) -> tuple[Document, ...]:
        """Remove and return all queued messages of the run, in order.

        Only the executor of a run calls this. Return an empty tuple for a claim that did not mark
        the run interactive.
        """
        ...

    async def cleanup_execution(self, key: Key, claim: Claim) -> None:
        """Remove all state of the run, the lease last. Waiting callers receive None.

        Do nothing if another claim of the same run holds the lease, because that claim owns the
        state.
        """
        ...

    async def shutdown_cleanup(self) -> None:
        """End all current and future waits of this process with SHUTDOWN_ANSWER.

        Leases stay until the cleanup of their runs.
        """
        ...
