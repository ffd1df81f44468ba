"""Detect connection poolers between headway and PostgreSQL, such as PgBouncer.

headway needs a session of its own on the server for as long as its connection is open: for LISTEN,
for session settings and for prepared statements. A pooler provides one in session mode. In
transaction mode each transaction may run in another session, so headway refuses to start.

A pooler invents the key for cancel requests, so the process id in the key differs from the process
id that the session reports. If the two ids differ, headway tests whether sessions are shared. While
one connection is idle, a second one holds a transaction open. If both report the same session, or
the idle connection reports a different session than before, the pooler shares sessions.

See docs/internals/connections.md.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from headway.adapters.sql.connect.server_check import RawConnection

# One round can miss shared sessions: the pooler may rotate them or lend them to other clients.
ROUND_COUNT: Final = 3
STATEMENT_MODE: Final = "statement pooling mode"
REFUSAL: Final = (
    "is a connection pooler in transaction mode, which headway cannot use: it needs a session of"
    " its own for LISTEN, session settings and prepared statements; set pool_mode = session for"
    " this database in the pooler (PgBouncer), or connect to PostgreSQL directly"
)


async def is_behind_pooler(connection: RawConnection) -> bool:
    """Return True if the connection leads to a pooler and not directly to the server."""
    # Use a simple query, because a prepared statement may already fail behind a pooler.
    query = f"SELECT 1 WHERE pg_backend_pid() = {connection.get_server_pid()}"
    return str(await connection.execute(query)) != "SELECT 1"


async def shares_sessions(connect: Callable[[], Awaitable[RawConnection]]) -> bool:
    """Return True if a pooler shares one session among several connections."""
    async with _open(connect) as idle, _open(connect) as busy:
        try:
            return await _shares_sessions(idle, busy)
        except asyncpg.PostgresError as error:
            if STATEMENT_MODE in str(error):
                return True
            raise


@asynccontextmanager
async def _open(connect: Callable[[], Awaitable[RawConnection]]) -> AsyncIterator[RawConnection]:
    connection = await connect()
    try:
        yield connection
    finally:
        connection.terminate()


async def _shares_sessions(idle: RawConnection, busy: RawConnection) -> bool:
    sessions = {await _read_session(idle)}
    for _ in range(ROUND_COUNT):
        await busy.execute("BEGIN")
        if await busy.fetchval("SELECT pg_backend_pid()") in sessions:
            return True
        sessions.add(await _read_session(idle))
        if len(sessions) > 1:
            return True
        await busy.execute("ROLLBACK")
    return False


async def _read_session(connection: RawConnection) -> int:
    # In a transaction, because the driver prepares and executes a statement in two steps.
    await connection.execute("BEGIN")
    session: int = await connection.fetchval("SELECT pg_backend_pid()")
    await connection.execute("ROLLBACK")
    return session
