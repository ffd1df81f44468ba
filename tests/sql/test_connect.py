"""How a connection is made, on real servers (R4.4, R4.5)."""

import socket
from collections.abc import Callable, Iterator

import pytest

from headway.adapters.sql.connect import addresses as connect
from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.server_check import Purpose
from headway.core.errors import DatabaseUnavailable
from tests.sql.nodes import (
    Node,
    make_connector,
    make_stream,
    open_connection,
    read_database_name,
    read_value,
)

MakeNode = Callable[[], Node]


async def read_refusals(connector: Connector) -> dict[str, str]:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connector.connect(Purpose.WRITE)
    return refused.value.reasons


@pytest.fixture
def silent_after_accept_url(backend: str) -> Iterator[str]:
    """Yield the address of a server that accepts connections and then sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = {"postgres": "postgresql", "mariadb": "mysql"}[backend]
        yield f"{scheme}://headway@127.0.0.1:{listener.getsockname()[1]}/headway"


@pytest.mark.proves("R4.4")
async def test_first_address_is_tried_first_each_time(a_node: MakeNode) -> None:
    first, second = a_node(), a_node()
    connector = make_connector(first, second)
    for _ in range(3):
        assert await read_database_name(connector) == first.database
    assert await read_database_name(make_connector(second, first)) == second.database


@pytest.mark.proves("R4.4")
async def test_next_address_is_used_when_the_first_does_not_answer(
    a_node: MakeNode, silent_url: str
) -> None:
    node = a_node()
    connector = make_connector(silent_url, node)
    for _ in range(2):
        assert await read_database_name(connector) == node.database


@pytest.mark.proves("R4.4")
async def test_error_gives_the_reason_for_each_address_if_all_fail(
    a_node: MakeNode, silent_url: str
) -> None:
    node = a_node()
    node.leave()
    silent, closed = (await read_refusals(make_connector(silent_url, node))).values()
    assert "onnect" in silent
    assert "locked" in closed or "not currently accepting connections" in closed


@pytest.mark.proves("S4")
async def test_connection_error_does_not_contain_the_password(silent_url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"headway:\*\*\*@") as refused:
        await make_connector(silent_url).connect(Purpose.READ)
    assert "hush" not in str(refused.value)


@pytest.mark.proves("R4.4")
async def test_address_has_five_seconds_to_answer(
    a_node: MakeNode, silent_after_accept_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connect.PROBE_TIMEOUT_S == 5
    monkeypatch.setattr(connect, "PROBE_TIMEOUT_S", 0.2)
    node = a_node()
    assert await read_database_name(make_connector(silent_after_accept_url, node)) == node.database
    (reason,) = (await read_refusals(make_connector(silent_after_accept_url))).values()
    assert reason == "did not answer within 0.2 s"


@pytest.mark.proves("R4.4")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_read_only_node_counts_as_failed(a_node: MakeNode) -> None:
    first, second = a_node(), a_node()
    first.execute(f"ALTER DATABASE {first.database} SET default_transaction_read_only = on")
    assert await read_database_name(make_connector(first, second)) == second.database
    assert list((await read_refusals(make_connector(first))).values()) == ["is read-only"]


@pytest.mark.proves("R4.15")
async def test_session_runs_in_utc(a_node: MakeNode, backend: str) -> None:
    node = a_node()
    if backend == "postgres":
        node.execute(f"ALTER DATABASE {node.database} SET timezone = 'Asia/Tokyo'")
    async with open_connection(make_connector(node)) as connection:
        zone = {"postgres": "SHOW timezone", "mariadb": "SELECT @@time_zone"}[backend]
        assert await read_value(connection, zone) in {"UTC", "+00:00"}


@pytest.mark.proves("R4.5")
async def test_session_reads_committed_rows(a_node: MakeNode, backend: str) -> None:
    async with open_connection(make_connector(a_node())) as connection:
        level = {
            "postgres": "SHOW transaction_isolation",
            "mariadb": "SELECT @@tx_isolation",
        }[backend]
        assert (
            str(await read_value(connection, level)).replace("-", " ").lower() == "read committed"
        )


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize("setting", ["idle_in_transaction_session_timeout", "lock_timeout"])
async def test_postgres_releases_the_locks_of_a_paused_writer(
    a_node: MakeNode, setting: str
) -> None:
    connector = make_connector(a_node())
    limits = {"idle_in_transaction_session_timeout": "2s", "lock_timeout": "5s"}
    async with open_connection(connector, Purpose.WRITE) as connection:
        assert await read_value(connection, f"SHOW {setting}") == limits[setting]
    async with open_connection(connector, Purpose.READ) as connection:
        assert await read_value(connection, f"SHOW {setting}") == "0"


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_mariadb_releases_the_locks_of_a_paused_writer(a_node: MakeNode) -> None:
    connector = make_connector(a_node())
    async with open_connection(connector, Purpose.WRITE) as connection:
        assert await read_value(connection, "SELECT @@idle_write_transaction_timeout") == 2
        assert await read_value(connection, "SELECT @@innodb_lock_wait_timeout") == 5
    async with open_connection(connector, Purpose.READ) as connection:
        assert await read_value(connection, "SELECT @@idle_write_transaction_timeout") == 0


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_postgres_gets_the_parameters_of_the_url(a_node: MakeNode) -> None:
    url = f"{a_node().url}?application_name=night%20shift&command_timeout=0.05"
    async with open_connection(make_connector(url), Purpose.WRITE) as connection:
        assert await read_value(connection, "SHOW application_name") == "night shift"
        with pytest.raises(TimeoutError):
            await read_value(connection, "SELECT pg_sleep(30)")


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_mariadb_gets_the_parameters_of_the_url(a_node: MakeNode) -> None:
    query = "charset=latin1&init_command=SET%20%40mark=7&autocommit=on&program_name=night"
    async with open_connection(
        make_connector(f"{a_node().url}?{query}"), Purpose.WRITE
    ) as connection:
        assert await read_value(connection, "SELECT @@character_set_client") == "latin1"
        assert await read_value(connection, "SELECT @mark") == 7
        assert await read_value(connection, "SELECT @@autocommit") == 1


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_update_that_changes_nothing_still_counts_its_row(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    async with open_connection(make_connector(node)) as connection, connection.cursor() as cursor:
        assert await cursor.execute("UPDATE stream SET seq = seq WHERE id = 1") == 1


@pytest.mark.proves("I24")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_mariadb_never_truncates_a_text(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    node.execute("SET GLOBAL sql_mode = ''")
    try:
        async with open_connection(make_connector(node)) as connection:
            with pytest.raises(Exception, match="Data too long"):
                await read_value(connection, f"UPDATE stream SET cluster_id = '{'x' * 99}'")  # noqa: S608
    finally:
        node.execute("SET GLOBAL sql_mode = DEFAULT")


@pytest.mark.proves("R4.7")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_new_connection_holds_no_transaction_open(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    async with open_connection(make_connector(node)):
        node.execute("SET lock_wait_timeout = 1", "ALTER TABLE stream ADD COLUMN extra INT")
