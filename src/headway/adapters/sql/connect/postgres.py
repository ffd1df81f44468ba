"""Connect to PostgreSQL with asyncpg."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import asyncpg

from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.lineage import StreamState
from headway.adapters.sql.connect.pooler import REFUSAL, is_behind_pooler, shares_sessions
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.core.errors import ConfigurationError

# Sent when the session starts, so they become the session's defaults: RESET ALL restores them.
SESSION_SETTINGS: Final = {
    "timezone": "UTC",
    "default_transaction_isolation": "read committed",
}
CLOSE_TIMEOUT_S: Final = 1.0
UNKNOWN_SETTING: Final = "unsupported startup parameter"
WRITE_SETTINGS: Final = {
    "idle_in_transaction_session_timeout": "2s",
    "lock_timeout": "5s",
    # Each statement of the writer finds its rows by an index. After a burst, outdated statistics
    # can make the planner read the whole table for each batch instead.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # The plans do not depend on the values, so they are not computed again for each execution.
    "plan_cache_mode": "force_generic_plan",
}


class PostgresDriver:
    errors: tuple[type[Exception], ...] = (
        OSError,
        UnicodeError,  # An invalid host name.
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
    )

    def __init__(self) -> None:
        self._session_poolers: set[str] = set()
        """Addresses of poolers that were found to be in session mode."""

    async def open(self, address: Address, purpose: Purpose) -> RawConnection:
        settings = dict(SESSION_SETTINGS)
        if purpose is Purpose.WRITE:
            settings |= WRITE_SETTINGS
        connection = await _connect(address, settings)
        try:
            if await is_behind_pooler(connection):
                await self._refuse_shared_sessions(address)
                # The pooler may have ignored the settings, or reused a session.
                for name, value in settings.items():
                    await connection.execute(f"SET {name} = '{value}'")
        except BaseException:
            self.discard(connection)
            raise
        return connection

    async def _refuse_shared_sessions(self, address: Address) -> None:
        if address.display in self._session_poolers:
            return
        if await shares_sessions(lambda: _connect(address, {}, statement_cache_size=0)):
            raise ConfigurationError(f"{address.display} {REFUSAL}")
        self._session_poolers.add(address.display)

    async def read_only_reason(self, connection: RawConnection) -> str | None:
        # Outside a transaction, this is the setting for the next transaction. It includes the
        # values that are set for the server, the database or the role.
        is_standby, read_only = await connection.fetchrow(
            "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')"
        )
        if is_standby:
            return "is a standby"
        return None if read_only == "off" else "is read-only"

    async def read_stream(self, connection: RawConnection) -> StreamState | None:
        try:
            row = await connection.fetchrow(
                "SELECT cluster_id, epoch, seq FROM stream WHERE id = 1"
            )
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
            return None  # No tables yet, or another program has a table of this name.
        return None if row is None else StreamState(*row)

    async def raise_epoch(self, connection: RawConnection, *, seen_epoch: int, epoch: int) -> bool:
        status = await connection.execute(
            "UPDATE stream SET epoch = $2 WHERE id = 1 AND epoch = $1", seen_epoch, epoch
        )
        return bool(status == "UPDATE 1")

    def discard(self, connection: RawConnection) -> None:
        connection.terminate()


async def _connect(address: Address, settings: Mapping[str, str], **options: Any) -> RawConnection:
    user_settings = address.arguments.get("server_settings", {})
    arguments = {**address.arguments, **options, "connection_class": _PostgresConnection}
    try:
        return await asyncpg.connect(
            **arguments | {"server_settings": {**user_settings, **settings}}
        )
    except asyncpg.ProtocolViolationError as error:
        # A pooler refuses settings that it does not support. `open` sets them afterwards.
        if UNKNOWN_SETTING not in str(error):
            raise
        return await asyncpg.connect(**arguments | {"server_settings": user_settings})


class _PostgresConnection(asyncpg.Connection):  # type: ignore[misc]  # The driver is not typed.
    async def close(self, *, timeout: float | None = CLOSE_TIMEOUT_S) -> None:  # noqa: ASYNC109
        # Without a timeout the driver waits forever for a server that does not answer, which
        # would also delay a shutdown. On a timeout the driver has closed the connection.
        with suppress(TimeoutError):
            await super().close(timeout=timeout)
