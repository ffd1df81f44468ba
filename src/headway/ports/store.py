"""The one door through which anything is written."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from headway.core.command.protocol import Command
from headway.core.ids import InstanceId
from headway.core.run.events import Event

A = TypeVar("A")


class EventOrigin(Enum):
    ALL = "all"
    OWN = "own"
    """Committed by this process."""
    OTHERS = "others"


class Store(Protocol):
    async def apply(self, command: Command[A]) -> A:
        """Decide and write `command`, with its events, in one transaction (often shared).

        The answer says who won; losing a race is an answer, not an error, and is never retried
        here. When this returns, what it says is durable. InfrastructureError: it was not written;
        OutcomeUnknown alone says that it may have been.
        """
        ...

    def keep_lease(
        self,
        instance_id: InstanceId,
        *,
        ttl_s: float,
        on_renewed: Callable[[float | None], None],
    ) -> Callable[[], None]:
        """Renew the lease every third of `ttl_s`, until the returned function is called.

        Also while the event loop is blocked, for up to a minute. After each answer `on_renewed` is
        called with how long the lease can be trusted now, by this process's monotonic clock, or
        None: the instance is dead. That happens in another thread, which must not be kept waiting.
        """
        ...

    def renew_lease(self) -> None:
        """Have the lease that is kept renewed at once, and not only when it is due."""
        ...

    def piggyback(
        self,
        source: Callable[[Command[Any]], Sequence[Command[A]]],
        on_answer: Callable[[Any, A], None],
    ) -> Callable[[], None]:
        """Have more decided in the batches of this process, until the returned function is called.

        When `apply` is called, `company` says what is to be decided in the same transaction, after
        everything else in it. Not for each command: for the first that it has company for, in each
        batch. `on_answer` is called with the accompanying command and its answer, in the event
        loop; when it could not be carried out, it is not called.
        """
        ...

    def listen(
        self, listener: Callable[[Sequence[Event]], None], *, origin: EventOrigin = EventOrigin.ALL
    ) -> Callable[[], None]:
        """Call `listener` with the events of each commit; returns the way to stop.

        Those of this process always come, and those of others where the database tells of them. A
        hint, never the truth: some may not come, and some may come twice.
        """
        ...
