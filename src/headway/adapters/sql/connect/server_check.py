"""What a connection must be able to say before it is used, whichever the driver."""

from enum import Enum
from typing import Any, Protocol, TypeAlias

from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.lineage import StreamState

RawConnection: TypeAlias = Any
"""An `asyncpg.Connection` or an `aiomysql.Connection`; neither driver is typed."""


class Purpose(Enum):
    READ = "read"
    WRITE = "write"
    """Holds row locks that others wait for, so the server ends it when its process is paused."""


class Server(Protocol):
    """How to talk to one kind of server, one statement at a time and outside any transaction."""

    errors: tuple[type[Exception], ...]
    """What may be raised when the server does not answer or refuses."""

    async def open(self, address: Address, purpose: Purpose) -> RawConnection:
        """Connect, in UTC and at READ COMMITTED; with no TLS when TLS was asked for, raise."""
        ...

    async def read_only_reason(self, connection: RawConnection) -> str | None: ...

    async def read_stream(self, connection: RawConnection) -> StreamState | None:
        """The `stream` row, or None as long as there is none."""
        ...

    async def raise_epoch(self, connection: RawConnection, *, seen_epoch: int, epoch: int) -> bool:
        """Commit `epoch`. Return False if the stored epoch has changed since it was read."""
        ...

    def discard(self, connection: RawConnection) -> None:
        """Close at once, without waiting for a server that may not answer."""
        ...
