"""The launcher: servers start, answer, fail on request, and end with their owner."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import asyncpg
import pymysql
import pytest

from tests.servers import (
    MariaDBPair,
    MariaDBServer,
    Missing,
    PostgresPair,
    PostgresServer,
    RedisCluster,
    RedisServer,
    start_mariadb,
    start_postgres,
    start_redis,
)
from tests.servers import programs as programs_module
from tests.servers.fixture import running
from tests.servers.folder import Folder
from tests.servers.process import is_any_alive, wait_until
from tests.servers.redis import SLOT_COUNT

ROOT: Final = Path(__file__).parents[1]
# Starts a server in a process of its own, prints its pid and folder, and waits to be killed.
STARTS_A_SERVER: Final = """
import signal
from tests.servers import {start}
server = {start}()
print(server.pid, server.folder, flush=True)
signal.pause()
"""
# The same by a pipe that closes, as on systems whose kernel does not signal a parent's exit.
STARTS_BY_A_PIPE: Final = """
import signal, subprocess, sys
command = [sys.executable, "tests/servers/trampoline.py", "0", "-", "pipe", "/bin/sleep", "600"]
server = subprocess.Popen(command, stdin=subprocess.PIPE)
print(server.pid, "/nowhere", flush=True)
signal.pause()
"""
OWNERS: Final = [
    pytest.param(
        STARTS_A_SERVER.format(start=f"start_{family}"),
        id=family,
        marks=pytest.mark.backend(family),
    )
    for family in ("postgres", "mariadb", "redis")
]


@pytest.fixture(scope="module", autouse=True)
def no_given_servers() -> Iterator[None]:
    """Test the launcher with its own servers, also if the environment names others."""
    with pytest.MonkeyPatch.context() as patch:
        for family in ("POSTGRES", "MARIADB", "REDIS"):
            patch.delenv(f"HEADWAY_TEST_{family}_URL", raising=False)
        yield


@pytest.fixture(scope="module")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    yield from running(start_postgres, request)


@pytest.fixture(scope="module")
def mariadb_server(request: pytest.FixtureRequest) -> Iterator[MariaDBServer]:
    yield from running(start_mariadb, request)


@pytest.fixture(scope="module")
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    yield from running(start_redis, request)


@contextmanager
def start_owner(program: str) -> Iterator[tuple[int, int, Path]]:
    """Yield the ids of a process and of the server it started, and that server's folder."""
    owner = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        with owner.stdout:
            server_pid, folder = owner.stdout.readline().split()
            yield owner.pid, int(server_pid), Path(folder)
    finally:
        owner.kill()
        owner.wait()


@pytest.mark.parametrize("program", [*OWNERS, pytest.param(STARTS_BY_A_PIPE, id="pipe")])
def test_a_server_ends_after_its_owner_was_killed(program: str) -> None:
    with start_owner(program) as (owner_pid, server_pid, folder):
        assert is_any_alive([server_pid])
        os.kill(owner_pid, signal.SIGKILL)
        wait_until(lambda: not is_any_alive([server_pid]), what="the server ends", timeout_s=10)
    Folder("next").remove()  # The next process that creates a folder removes abandoned ones.
    assert not folder.exists()


def test_postgres_server_has_a_superuser_role_and_a_plain_role(
    postgres_server: PostgresServer,
) -> None:
    assert int(postgres_server.version.split(".")[0]) >= 13
    is_superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = '{}'"
    assert postgres_server.execute(is_superuser.format("headway")) == "True"
    assert postgres_server.execute(is_superuser.format("app")) == "False"


async def test_postgres_is_managed_from_within_an_event_loop(
    postgres_server: PostgresServer,
) -> None:
    postgres_server.create_database("of_a_test")
    connection = await asyncpg.connect(postgres_server.url("of_a_test"))
    postgres_server.drop_database("of_a_test")  # Although a client is connected.
    assert connection.is_closed() or await _is_cut_off(connection)


async def _is_cut_off(connection: asyncpg.Connection) -> bool:
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.fetchval("SELECT 1")
    return True


def test_postgres_keeps_its_commits_after_a_kill_and_a_restart(
    postgres_server: PostgresServer,
) -> None:
    postgres_server.execute("CREATE TABLE kept (number int)", "INSERT INTO kept VALUES (7)")
    postgres_server.kill()
    assert not _accepts(postgres_server.port)
    postgres_server.restart()
    assert postgres_server.execute("SELECT number FROM kept") == "7"
    postgres_server.execute("DROP TABLE kept")


def test_a_paused_postgres_answers_after_it_is_resumed(postgres_server: PostgresServer) -> None:
    with socket.create_connection((postgres_server.host, postgres_server.port)) as client:
        client.settimeout(0.2)
        postgres_server.pause()
        client.sendall(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")  # An SSLRequest.
        with pytest.raises(TimeoutError):
            client.recv(1)
        postgres_server.resume()
        client.settimeout(10)
        assert client.recv(1) == b"N"


@pytest.fixture
def tls_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    yield from running(lambda: start_postgres(tls=True), request)


@pytest.mark.backend("postgres")
async def test_postgres_over_tls_requires_the_client_certificate_of_the_user_app(
    tls_server: PostgresServer,
) -> None:
    trusting = ssl.create_default_context(cafile=tls_server.ca_file)
    with pytest.raises(asyncpg.PostgresError):
        await asyncpg.connect(tls_server.url(user="app"), ssl=trusting)
    with pytest.raises(asyncpg.PostgresError):
        await asyncpg.connect(tls_server.url(), ssl=False)
    trusting.load_cert_chain(tls_server.client_cert_file, tls_server.client_key_file)
    connection = await asyncpg.connect(tls_server.url(user="app"), ssl=trusting)
    assert await connection.fetchval("SELECT current_user::text") == "app"
    await connection.close()


def test_the_postgres_pair_replicates_promotes_and_fails_back(postgres_pair: PostgresPair) -> None:
    primary, standby = postgres_pair.primary, postgres_pair.standby
    primary.execute("CREATE TABLE kept (number int)", "INSERT INTO kept VALUES (7)")
    assert standby.is_in_recovery()
    primary.kill()
    postgres_pair.promote()
    assert standby.execute("SELECT number FROM kept") == "7"
    standby.execute("INSERT INTO kept VALUES (8)")
    postgres_pair.rejoin()
    assert primary.is_in_recovery()
    postgres_pair.fail_back()
    assert (primary.is_in_recovery(), standby.is_in_recovery()) == (False, True)
    assert primary.execute("SELECT sum(number) FROM kept") == "15"


def test_mariadb_keeps_its_commits_after_a_kill_and_a_restart(
    mariadb_server: MariaDBServer,
) -> None:
    assert "MariaDB" in mariadb_server.version
    mariadb_server.create_database("of_a_test")
    _run(mariadb_server.url("of_a_test"), "CREATE TABLE kept (number int)")
    _run(mariadb_server.url("of_a_test"), "INSERT INTO kept VALUES (7)")
    mariadb_server.kill()
    assert not _accepts(mariadb_server.port)
    mariadb_server.restart()
    assert mariadb_server.execute("SELECT number FROM of_a_test.kept") == "7"
    mariadb_server.drop_database("of_a_test")


def test_read_only_mode_applies_to_the_database_user_of_the_tests(
    mariadb_pair: MariaDBPair,
) -> None:
    first, second = mariadb_pair.urls()
    _run(first, "CREATE TABLE one (number int)")
    with pytest.raises(pymysql.err.OperationalError, match="read-only"):
        _run(second, "CREATE TABLE one (number int)")
    mariadb_pair.promote()
    _run(second, "CREATE TABLE one (number int)")
    with pytest.raises(pymysql.err.OperationalError, match="read-only"):
        _run(first, "DROP TABLE one")
    mariadb_pair.fail_back()
    _run(first, "DROP TABLE one")


def test_redis_is_empty_after_a_kill_and_a_restart(redis_server: RedisServer) -> None:
    redis_server.execute("SET", "of-a-test", "7")
    assert redis_server.execute("GET", "of-a-test") == "7"
    redis_server.kill()
    assert not redis_server.answers()
    redis_server.restart()
    assert redis_server.execute("GET", "of-a-test") is None


def test_the_cluster_serves_all_slots(redis_cluster: RedisCluster) -> None:
    assert len(redis_cluster.nodes) == 3
    for node in redis_cluster.nodes:
        assert f"cluster_slots_ok:{SLOT_COUNT}" in node.execute("CLUSTER", "INFO")


@pytest.mark.backend("postgres")
def test_a_missing_server_is_reported_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs_module, "_PLACES", ())
    monkeypatch.setattr(programs_module, "_wheel", lambda _package: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Missing, match="PostgreSQL is not installed here; install it with: "):
        start_postgres()


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _run(url: str, statement: str) -> None:
    address = urlsplit(url)
    connection: Any = pymysql.connect(
        host=address.hostname,
        port=address.port,
        user=address.username,
        password=address.password,
        database=address.path.strip("/"),
        autocommit=True,
    )
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)
