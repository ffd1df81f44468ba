"""The only interface through which anything is written to the database."""

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
    """Only events that this process commits."""
    OTHERS = "others"


class Store(Protocol):
    async def apply(self, command: Command[A]) -> A:
        """Decide and write `command` with its events in one transaction, and return its answer.

        Other commands may share the transaction. Losing a race is an answer, not an error, and is
        not retried here. The answer is durable when this returns. Raise InfrastructureError if the
        command was not written. Its subclass OutcomeUnknown means that the command may have been
        written.
        """
        ...

    def keep_lease(
        self,
        instance_id: InstanceId,
        *,
        ttl_s: float,
        on_renewed: Callable[[float | None], None],
    ) -> Callable[[], None]:
        """Renew the instance's lease every third of `ttl_s`, until the returned function is called.

        Renewal continues for up to a minute while the event loop is blocked. After each answer
        of the database, `on_renewed` is called with the time until which the lease can be trusted,
        by this process's monotonic clock. It is called with None if the instance was declared dead.
        It is called in another thread and must not block.
        """
        ...

    def renew_lease(self) -> None:
        """Renew the lease of `keep_lease` at once, even if the renewal is not due yet."""
        ...

    def piggyback(
        self,
        source: Callable[[Command[Any]], Command[A] | None],
        on_answer: Callable[[Any, A], None],
    ) -> Callable[[], None]:
        """Add commands from `source` to the batches, until the returned function is called.

        `apply` calls `source` with its own command. `source` returns None or another command, which
        is decided in the same transaction after all others. A batch contains only the first command
        that `source` returns for it.

        `on_answer` is called in the event loop with each added command and its answer. It is not
        called if the added command failed.
        """
        ...

    def listen(
        self, listener: Callable[[Sequence[Event]], None], *, origin: EventOrigin = EventOrigin.ALL
    ) -> Callable[[], None]:
        """Call `listener` with each commit's events. Return a function to remove the listener.

        Events of this process are always delivered. Events of other processes are delivered only if
        the database sends notifications. Delivery is a hint: events may be missing or arrive twice.
        """
        ...
