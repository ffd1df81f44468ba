"""A listener whose process is paused: PostgreSQL does not accumulate its notifications."""

import signal
import subprocess
import sys
import time

import pytest

from tests.cli.command import environment
from tests.contract.backends import open_database
from tests.servers import PostgresServer

LISTENER = """
import asyncio, sys
from headway.adapters.sql import notify_listener
from headway.adapters.sql.sql_store import open_store

async def main():
    notify_listener.TCP_USER_TIMEOUT_MS = 1_000
    store = await open_store([sys.argv[1]])
    store.listen(lambda events: None)
    while store._notify_listener._notified_seq is None:
        await asyncio.sleep(0.01)
    print("listening", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
# More than fits between the server and a client that does not read.
NOTIFY_MANY = (
    "SELECT count(pg_notify('headway', number || repeat('x', 7000)))"
    " FROM generate_series(1, 4000) AS number"
)


def blocked_connection_count(server: PostgresServer, database: str) -> int:
    """Return the number of connections that wait for a client which does not read."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"
    return int(server.execute(f"{query} AND datname = '{database}'"))


@pytest.mark.proves("I19")
def test_the_server_ends_the_connection_of_a_paused_listener(
    postgres_server: PostgresServer,
) -> None:
    with open_database(postgres_server) as name:
        arguments = [sys.executable, "-c", LISTENER, postgres_server.url(name)]
        with subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE) as listener:
            try:
                assert listener.stdout is not None
                assert listener.stdout.readline() == b"listening\n"
                listener.send_signal(signal.SIGSTOP)
                postgres_server.execute(NOTIFY_MANY, database=name)
                while blocked_connection_count(postgres_server, name) == 0:
                    time.sleep(0.05)
                while (
                    blocked_connection_count(postgres_server, name) == 1
                ):  # Without the timeout: until the process resumes.
                    time.sleep(0.1)
            finally:
                listener.kill()
