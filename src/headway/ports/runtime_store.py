"""The fast, short-lived side of a run: its lease, questions, cancel flag, messages and hints.

The database decides, and has everything that was accepted. What is kept here makes it quick, across
all instances, and may be lost as a whole at any time; that costs latency only. So an answer from
here is acted upon by asking the database, and nothing here knows that there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from headway.core.document import Document
from headway.core.errors import ConfigurationError
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.core.timeouts import EXECUTION_TIMEOUT_S, LEASE_TTL_S, PERMISSION_TIMEOUT_S

CANCELED_ANSWER: Final = Document('{"approved":false,"reason":"cancelled"}')
"""What an open question is answered with when its run is to be cancelled."""
SHUTDOWN_ANSWER: Final = Document('{"approved":false,"reason":"shutdown"}')
"""What a wait ends with when its process stops."""


class Phase(StrEnum):
    """What the engine of an interactive run is doing."""

    STREAMING = "streaming"
    COMPACTING = "compacting"
    """It takes no messages until it streams again."""


class ResolveAnswer(StrEnum):
    RESOLVED = "resolved"
    STALE = "stale"
    """The run waits for answers, but not, or no longer, to this question."""
    NOT_WAITING = "not_waiting"
    """The run has no open question."""


class InjectAnswer(StrEnum):
    INJECTED = "injected"
    NO_ACTIVE_RUN = "no_active_run"
    """This run does not hold the lease of its key."""
    NOT_STREAMING = "not_streaming"
    """Its engine has not begun, or its loop has ended."""
    COMPACTING = "compacting"
    FULL = "full"


class Hint(StrEnum):
    """Why it is worth to look at a run now."""

    CANCEL = "cancel"
    MESSAGE = "message"
    ANSWER = "answer"
    RESYNC = "look"
    """Hints may have been missed: look at everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLimits:
    """How long things live, and how many there may be. Memory keeps things until they are removed.

    A lease, the time a run may take and the time a person may take are three separate clocks.
    """

    lease_ttl_s: float = LEASE_TTL_S
    permission_timeout_s: float = PERMISSION_TIMEOUT_S
    execution_timeout_s: float = EXECUTION_TIMEOUT_S
    message_count_max: int = 1_000
    """Of a run, not yet drained."""
    interrupt_count_max: int = 10_000
    """Of a run, open and answered."""

    def __post_init__(self) -> None:
        for name in ("lease_ttl_s", "permission_timeout_s", "execution_timeout_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigurationError(f"{name} must be a number of seconds above 0")
        if self.permission_timeout_s >= self.execution_timeout_s:
            raise ConfigurationError(
                f"permission_timeout_s ({self.permission_timeout_s:g}) must be below "
                f"execution_timeout_s ({self.execution_timeout_s:g}), or no run sees a late answer"
            )


class RuntimeStore(Protocol):
    """One store for all instances. Any call may raise RuntimeUnavailable, within seconds.

    A call that raised it may have been done: everything can be asked for again, except that a
    repeated `inject_message` may add its message twice, and a repeated `resolve_interrupt` or
    `drain_messages` may find that the first one did it.
    """

    async def acquire_lease(self, key: Key, claim: Claim) -> RunId | None:
        """Take the key's lease, or learn which run has it; None: it is this claim's now.

        A claim that has it already keeps it, for another full term.
        """
        ...

    async def renew_lease(self, key: Key, claim: Claim) -> bool:
        """Extend the lease and the interactive flag together; False: it is not this claim's."""
        ...

    async def release_lease(self, key: Key, claim: Claim) -> bool:
        """Give the lease back, and the interactive flag with it; False: it was not this claim's."""
        ...

    async def mark_interactive(
        self, key: Key, claim: Claim, phase: Phase = Phase.STREAMING
    ) -> bool:
        """Say that the engine listens; False, and nothing is marked: the lease is not this claim's.

        The flag ends with the lease at the latest. Messages that an earlier claim of the run has
        left are kept for this one.
        """
        ...

    async def clear_interactive(self, key: Key, claim: Claim) -> tuple[Document, ...]:
        """Take no more messages; the accepted ones that were not drained, in order.

        From then on nothing is accepted, until the flag is marked again.
        """
        ...

    async def create_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> bool:
        """Open a question, before anybody is told of it; False: the run has too many.

        One that is open or answered stays as it is, so that a run's next claim finds the answer.
        In a run that is to be cancelled it is answered at once.
        """
        ...

    async def wait_for_interrupt(
        self, run_id: RunId, call_id: str, *, timeout_s: float | None = None
    ) -> Document | None:
        """The answer, or None when none came in `timeout_s` (by default `permission_timeout_s`).

        Opens the question if it is not. CANCELLED and SHUTDOWN are answers too; None is also what
        remains when the run is cleaned up meanwhile. A question that nobody answered is closed
        when this returns: it has one wait at a time. Raises RuntimeUnavailable when the store
        cannot be asked at the beginning or at the end; an outage in between is waited out.
        """
        ...

    async def resolve_interrupt(
        self, run_id: RunId, call_id: str, answer: Document
    ) -> ResolveAnswer:
        """Answer an open question, once; whoever waits for it wakes."""
        ...

    async def request_cancel(self, run_id: RunId) -> None:
        """Raise the flag, and answer all open questions of the run with CANCELLED.

        For a run that is being executed: its clean-up is what removes the flag.
        """
        ...

    async def is_cancelled(self, run_id: RunId) -> bool: ...

    async def inject_message(self, key: Key, run_id: RunId, message: Document) -> InjectAnswer:
        """Queue a message for the run's engine, if it listens."""
        ...

    async def drain_messages(self, claim: Claim) -> tuple[Document, ...]:
        """Take all messages at once, in order; nothing for a claim that is not the interactive one.

        Only the lead of a run calls this.
        """
        ...

    async def publish_hint(self, run_id: RunId, hint: Hint) -> None:
        """Tell whoever watches the run, and let whoever waits in it look again.

        Cancels, answers and messages that are given to this store are told by it.
        """
        ...

    async def watch(self, run_id: RunId, listener: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `listener` with the run's hints from now on; returns the way to stop.

        It is called on the event loop, and must return at once. Hints can be lost; when that may
        have happened, there is a LOOK.
        """
        ...

    async def cleanup_execution(self, key: Key, claim: Claim) -> None:
        """Remove all that belongs to the run, the lease last; wakes whoever still waits with None.

        Nothing happens when another claim of the same run holds the lease: all of it is that one's.
        """
        ...

    async def shutdown_cleanup(self) -> None:
        """End all waits of this process, also future ones, with SHUTDOWN.

        Leases stay: each goes when its run has cleaned up.
        """
        ...
