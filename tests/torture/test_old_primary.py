"""I21: whoever has written to the new primary leaves an old one alone, however it got there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import pytest

from headway.adapters.sql.connect.server_check import Purpose
from headway.adapters.sql.sql_store import open_store
from headway.core.command.admin.set_lane import SetLane
from headway.core.errors import DatabaseUnavailable
from headway.core.ids import MAIN_LANE
from tests.contract.backends import run_apart, upgrade
from tests.servers import MariaDBServer, PostgresServer
from tests.sql.nodes import (
    MariaDBNode,
    Node,
    PostgresNode,
    connected,
    connector_to,
    database_of,
    epoch_of,
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
        run_apart(lambda: upgrade(node.url))
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
async def test_who_came_before_the_failover_was_marked_learns_of_it(nodes: list[Node]) -> None:
    first, second = nodes
    second.leave()
    veteran = connector_to(first, second)
    assert await database_of(veteran) == first.database
    first.leave()
    second.come_back()
    # The newcomer finds one node that takes writes, and nothing to mark; the veteran marks it.
    newcomer = await open_store([first.url, second.url])
    try:
        before = epoch_of(second)
        assert await database_of(veteran) == second.database
        assert epoch_of(second) == before + 1
        await newcomer.apply(SetLane(name=MAIN_LANE, max_concurrent=5))

        second.leave()
        first.come_back()
        assert newcomer._database.connector is not None
        with pytest.raises(DatabaseUnavailable, match="an old primary that came back"):
            async with connected(newcomer._database.connector, Purpose.WRITE):
                """It should not have come here."""
    finally:
        second.come_back()
        await newcomer.close()
