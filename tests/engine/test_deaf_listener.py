"""A process that is paused while it listens, on PostgreSQL: what is said to it does not pile up."""

import signal
import subprocess
import sys
import time

import pytest

from tests.cli.command import environment
from tests.contract.backends import database_on
from tests.servers import PostgresServer

LISTENER = """
import asyncio, sys
from headway.adapters.sql import notify_listener as ear
from headway.adapters.sql.sql_store import open_store

async def main():
    ear.DEAF_MS_MAX = 1_000
    store = await open_store([sys.argv[1]])
    store.listen(lambda events: None)
    while store._ear._heard_seq is None:
        await asyncio.sleep(0.01)
    print("listens", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
# More than fits between the server and a client that does not read.
SHOUT = (
    "SELECT count(pg_notify('headway', number || repeat('x', 7000)))"
    " FROM generate_series(1, 4000) AS number"
)


def deaf_count(server: PostgresServer, database: str) -> int:
    """How many connections wait for a client that does not read."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"
    return int(server.execute(f"{query} AND datname = '{database}'"))


@pytest.mark.proves("I19")
def test_the_server_ends_the_connection_of_a_paused_listener(
    postgres_server: PostgresServer,
) -> None:
    with database_on(postgres_server) as name:
        arguments = [sys.executable, "-c", LISTENER, postgres_server.url(name)]
        with subprocess.Popen(arguments, env=environment(), stdout=subprocess.PIPE) as listener:
            try:
                assert listener.stdout is not None
                assert listener.stdout.readline() == b"listens\n"
                listener.send_signal(signal.SIGSTOP)
                postgres_server.execute(SHOUT, database=name)
                while deaf_count(postgres_server, name) == 0:
                    time.sleep(0.05)
                while deaf_count(postgres_server, name) == 1:  # Else for as long as it is paused.
                    time.sleep(0.1)
            finally:
                listener.kill()
