"""Connection poolers between headway and PostgreSQL, such as PgBouncer.

headway needs a session of its own on the server for as long as its connection lives: for LISTEN,
for session settings and for prepared statements. A pooler gives it one in session mode. In
transaction mode each transaction may run in another session, so headway refuses to start.

A pooler is recognised because it makes up the key for cancel requests: the process id in it is not
the one that the session reports. Whether sessions are shared is then tried out. While one
connection is idle, a second one holds a transaction open. If both report the same session, or the
first one reports another session than before, the sessions do not belong to the connections.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from headway.adapters.sql.server import RawConnection

# A pooler that hands out its sessions in turn, or to others meanwhile, may hide it once.
ROUND_COUNT: Final = 3
STATEMENT_MODE: Final = "statement pooling mode"
REFUSAL: Final = (
    "is a connection pooler in transaction mode, which headway cannot use: it needs a session of"
    " its own for LISTEN, session settings and prepared statements; set pool_mode = session for"
    " this database in the pooler (PgBouncer), or connect to PostgreSQL directly"
)


async def is_behind_pooler(connection: RawConnection) -> bool:
    """Return whether something between headway and the server answers for the server."""
    # By a simple query: a prepared statement may already fail behind a pooler.
    query = f"SELECT 1 WHERE pg_backend_pid() = {connection.get_server_pid()}"
    return str(await connection.execute(query)) != "SELECT 1"


async def shares_sessions(connect: Callable[[], Awaitable[RawConnection]]) -> bool:
    """Return whether the pooler gives one session to several connections in turn."""
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
    # In a transaction: the driver prepares a statement and executes it in two steps.
    await connection.execute("BEGIN")
    session: int = await connection.fetchval("SELECT pg_backend_pid()")
    await connection.execute("ROLLBACK")
    return session
