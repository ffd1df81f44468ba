"""R4.4, R4.5: how a connection is made, on real servers."""

import socket
from collections.abc import Callable, Iterator

import pytest

from headway.adapters.sql.connect import addresses as connect
from headway.adapters.sql.connect.addresses import Connector
from headway.adapters.sql.connect.server_check import Purpose
from headway.core.errors import DatabaseUnavailable
from tests.sql.nodes import Node, ask, connected, connector_to, database_of, make_stream

MakeNode = Callable[[], Node]


async def refused_by(connector: Connector) -> dict[str, str]:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connector.connect(Purpose.WRITE)
    return refused.value.reasons


@pytest.fixture
def mute_url(backend: str) -> Iterator[str]:
    """An address that takes connections and then says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = {"postgres": "postgresql", "mariadb": "mysql"}[backend]
        yield f"{scheme}://headway@127.0.0.1:{listener.getsockname()[1]}/headway"


@pytest.mark.proves("R4.4")
async def test_the_first_address_is_tried_first_each_time(a_node: MakeNode) -> None:
    first, second = a_node(), a_node()
    connector = connector_to(first, second)
    for _ in range(3):
        assert await database_of(connector) == first.database
    assert await database_of(connector_to(second, first)) == second.database


@pytest.mark.proves("R4.4")
async def test_the_next_address_serves_when_the_first_is_silent(
    a_node: MakeNode, silent_url: str
) -> None:
    node = a_node()
    connector = connector_to(silent_url, node)
    for _ in range(2):
        assert await database_of(connector) == node.database


@pytest.mark.proves("R4.4")
async def test_when_all_fail_each_one_says_why(a_node: MakeNode, silent_url: str) -> None:
    node = a_node()
    node.leave()
    silent, closed = (await refused_by(connector_to(silent_url, node))).values()
    assert "onnect" in silent
    assert "locked" in closed or "not currently accepting connections" in closed


@pytest.mark.proves("S4")
async def test_a_reason_does_not_repeat_the_password(silent_url: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"headway:\*\*\*@") as refused:
        await connector_to(silent_url).connect(Purpose.READ)
    assert "hush" not in str(refused.value)


@pytest.mark.proves("R4.4")
async def test_an_address_has_five_seconds_to_answer(
    a_node: MakeNode, mute_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connect.PROBE_TIMEOUT_S == 5
    monkeypatch.setattr(connect, "PROBE_TIMEOUT_S", 0.2)
    node = a_node()
    assert await database_of(connector_to(mute_url, node)) == node.database
    (reason,) = (await refused_by(connector_to(mute_url))).values()
    assert reason == "gave no answer within 0.2 s"


@pytest.mark.proves("R4.4")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_a_node_that_takes_no_writes_counts_as_failed(a_node: MakeNode) -> None:
    first, second = a_node(), a_node()
    first.execute(f"ALTER DATABASE {first.database} SET default_transaction_read_only = on")
    assert await database_of(connector_to(first, second)) == second.database
    assert list((await refused_by(connector_to(first))).values()) == ["is read-only"]


@pytest.mark.proves("R4.15")
async def test_a_session_runs_in_utc(a_node: MakeNode, backend: str) -> None:
    node = a_node()
    if backend == "postgres":
        node.execute(f"ALTER DATABASE {node.database} SET timezone = 'Asia/Tokyo'")
    async with connected(connector_to(node)) as connection:
        zone = {"postgres": "SHOW timezone", "mariadb": "SELECT @@time_zone"}[backend]
        assert await ask(connection, zone) in {"UTC", "+00:00"}


@pytest.mark.proves("R4.5")
async def test_a_session_reads_what_is_committed(a_node: MakeNode, backend: str) -> None:
    async with connected(connector_to(a_node())) as connection:
        level = {
            "postgres": "SHOW transaction_isolation",
            "mariadb": "SELECT @@tx_isolation",
        }[backend]
        assert str(await ask(connection, level)).replace("-", " ").lower() == "read committed"


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize("setting", ["idle_in_transaction_session_timeout", "lock_timeout"])
async def test_postgres_frees_what_a_paused_writer_holds(a_node: MakeNode, setting: str) -> None:
    connector = connector_to(a_node())
    limits = {"idle_in_transaction_session_timeout": "2s", "lock_timeout": "5s"}
    async with connected(connector, Purpose.WRITE) as connection:
        assert await ask(connection, f"SHOW {setting}") == limits[setting]
    async with connected(connector, Purpose.READ) as connection:
        assert await ask(connection, f"SHOW {setting}") == "0"


@pytest.mark.proves("I20")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_mariadb_frees_what_a_paused_writer_holds(a_node: MakeNode) -> None:
    connector = connector_to(a_node())
    async with connected(connector, Purpose.WRITE) as connection:
        assert await ask(connection, "SELECT @@idle_write_transaction_timeout") == 2
        assert await ask(connection, "SELECT @@innodb_lock_wait_timeout") == 5
    async with connected(connector, Purpose.READ) as connection:
        assert await ask(connection, "SELECT @@idle_write_transaction_timeout") == 0


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["postgres"])
async def test_postgres_gets_the_parameters_of_the_url(a_node: MakeNode) -> None:
    url = f"{a_node().url}?application_name=night%20shift&command_timeout=0.05"
    async with connected(connector_to(url), Purpose.WRITE) as connection:
        assert await ask(connection, "SHOW application_name") == "night shift"
        with pytest.raises(TimeoutError):
            await ask(connection, "SELECT pg_sleep(30)")


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_mariadb_gets_the_parameters_of_the_url(a_node: MakeNode) -> None:
    given = "charset=latin1&init_command=SET%20%40mark=7&autocommit=on&program_name=night"
    async with connected(connector_to(f"{a_node().url}?{given}"), Purpose.WRITE) as connection:
        assert await ask(connection, "SELECT @@character_set_client") == "latin1"
        assert await ask(connection, "SELECT @mark") == 7
        assert await ask(connection, "SELECT @@autocommit") == 1


@pytest.mark.proves("R4.5")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_an_update_that_changes_nothing_still_finds_its_row(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    async with connected(connector_to(node)) as connection, connection.cursor() as cursor:
        assert await cursor.execute("UPDATE stream SET seq = seq WHERE id = 1") == 1


@pytest.mark.proves("I24")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_mariadb_never_cuts_a_text_off(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    node.execute("SET GLOBAL sql_mode = ''")
    try:
        async with connected(connector_to(node)) as connection:
            with pytest.raises(Exception, match="Data too long"):
                await ask(connection, f"UPDATE stream SET cluster_id = '{'x' * 99}'")  # noqa: S608
    finally:
        node.execute("SET GLOBAL sql_mode = DEFAULT")


@pytest.mark.proves("R4.7")
@pytest.mark.parametrize("backend", ["mariadb"])
async def test_a_new_connection_holds_nothing_open(a_node: MakeNode) -> None:
    node = a_node()
    make_stream(node)
    async with connected(connector_to(node)):
        node.execute("SET lock_wait_timeout = 1", "ALTER TABLE stream ADD COLUMN extra INT")
