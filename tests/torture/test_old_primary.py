"""A process that has written to the new primary does not use the old one, however it is reached
(I21).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import pytest

from headway.adapters.sql.connect.server_check import Purpose
from headway.adapters.sql.sql_store import open_store
from headway.core.command.admin.lane_limits import SetLane
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import MAIN_LANE
from tests.contract.backends import run_in_thread, upgrade
from tests.servers import MariaDBServer, PostgresServer
from tests.sql.nodes import (
    MariaDBNode,
    Node,
    PostgresNode,
    make_connector,
    open_connection,
    read_database_name,
    read_epoch,
)


@contextmanager
def a_node(server: PostgresServer | MariaDBServer) -> Iterator[Node]:
    """A node with the schema, of the same cluster as any other."""
    name = f"node_{uuid4().hex[:12]}"
    node: Node
    if isinstance(server, PostgresServer):
        node = PostgresNode(server, name)
    else:
        node = MariaDBNode(server, name)
    node.create()
    try:
        run_in_thread(lambda: upgrade(node.url))
        node.execute("UPDATE stream SET cluster_id = 'ours'", "COMMIT")
        yield node
    finally:
        node.come_back()
        node.drop()


@pytest.fixture
def nodes(request: pytest.FixtureRequest, backend: str) -> Iterator[list[Node]]:
    server = request.getfixturevalue(f"{backend}_server")
    with ExitStack() as stack:
        yield [stack.enter_context(a_node(server)) for _ in range(2)]


@pytest.mark.proves("I21")
@pytest.mark.parametrize("backend", ["postgres", "mariadb"])
async def test_a_process_from_before_the_failover_detects_the_new_primary(
    nodes: list[Node],
) -> None:
    first, second = nodes
    second.leave()
    veteran = make_connector(first, second)
    assert await read_database_name(veteran) == first.database
    first.leave()
    second.come_back()
    # The new process finds one writable node, and nothing to mark; the old process marks it.
    newcomer = await open_store([first.url, second.url])
    try:
        before = read_epoch(second)
        assert await read_database_name(veteran) == second.database
        assert read_epoch(second) == before + 1
        await newcomer.apply(SetLane(name=MAIN_LANE, max_concurrent=5))

        second.leave()
        first.come_back()
        assert newcomer._database.connector is not None
        with pytest.raises(DatabaseUnavailable, match="an old primary that came back"):
            async with open_connection(newcomer._database.connector, Purpose.WRITE):
                """It must not be called."""
    finally:
        second.come_back()
        await newcomer.close()
