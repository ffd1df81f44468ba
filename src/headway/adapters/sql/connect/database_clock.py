"""The clock of the database, by which all leases and deadlines are judged."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.dsn import Driver
from headway.core.ids import Instant

NOW_SQL: Final[Mapping[Driver, str]] = {
    "postgres": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
    "mysql": "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
}
"""SQL for the current time in microseconds. SQLite uses the clock of the machine."""


def machine_now() -> Instant:
    return Instant(time.time_ns() // 1_000)


class DatabaseClock:
    """The clock of a database, for its readers."""

    def __init__(self, driver: Driver, now: Callable[[], Instant] | None) -> None:
        """Create the clock. `now` replaces the database's clock, for tests."""
        sql = NOW_SQL.get(driver) if now is None else None
        self._local_clock = machine_now if now is None else now
        self._server_now: sa.ColumnElement[int] | None = None
        if sql is not None:
            self._server_now = sa.literal_column(sql)

    def local_now(self) -> Instant | None:
        """Return this machine's time, or None if the database server's clock is used."""
        return self._local_clock() if self._server_now is None else None

    def now_for_query(self) -> Instant | sa.ColumnElement[int]:
        """Return the current time for use in a query: an instant, or SQL for the server's clock."""
        return self._local_clock() if self._server_now is None else self._server_now

    async def read(self, connection: AsyncConnection) -> Instant:
        """Return the database's current time, even in a session whose snapshot is older."""
        if self._server_now is None:
            return self._local_clock()
        return Instant((await connection.execute(sa.select(self._server_now))).scalar_one())
