"""The protocol by which each driver opens and checks a connection to its server.

See docs/internals/connections.md.
"""

from enum import Enum
from typing import Any, Protocol, TypeAlias

from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.lineage import StreamState

RawConnection: TypeAlias = Any
"""An `asyncpg.Connection` or an `aiomysql.Connection`; neither driver is typed."""


class Purpose(Enum):
    """The use of a connection, which decides its session settings."""

    READ = "read"
    WRITE = "write"
    """For the writer, which holds row locks.

    The server ends the connection if the process is paused in a transaction.
    """


class Server(Protocol):
    """The driver for one kind of server. Call each method outside a transaction."""

    errors: tuple[type[Exception], ...]
    """The exceptions that mean that a server does not answer or refuses the connection."""

    async def open(self, address: Address, purpose: Purpose) -> RawConnection:
        """Connect, with time zone UTC and isolation level READ COMMITTED.

        Raise one of `errors` if TLS is configured but the server does not offer it.
        """
        ...

    async def read_only_reason(self, connection: RawConnection) -> str | None:
        """Return why the server refuses writes, or None if it accepts them."""
        ...

    async def read_stream(self, connection: RawConnection) -> StreamState | None:
        """Return the content of the `stream` row, or None if the row does not exist yet."""
        ...

    async def raise_epoch(self, connection: RawConnection, *, seen_epoch: int, epoch: int) -> bool:
        """Commit `epoch` as the new epoch. Return False if the stored epoch is not `seen_epoch`."""
        ...

    def discard(self, connection: RawConnection) -> None:
        """Close the connection at once, without waiting for an answer from the server."""
        ...
