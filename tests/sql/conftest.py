"""Nodes to connect to, and addresses without a server."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.connect.dsn import parse_addresses
from tests.servers import MariaDBServer, PostgresServer
from tests.servers.process import free_port
from tests.sql.nodes import MariaDBNode, Node, PostgresNode


@pytest.fixture(params=["postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def a_node(request: pytest.FixtureRequest, backend: str) -> Iterator[Callable[[], Node]]:
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    made: list[Node] = []

    def make() -> Node:
        name = f"node_{uuid4().hex[:12]}"
        node: Node
        if isinstance(server, PostgresServer):
            node = PostgresNode(server, name)
        else:
            node = MariaDBNode(server, name)
        node.create()
        made.append(node)
        return node

    yield make
    for node in made:
        node.drop()


@pytest.fixture
def url(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    match backend:
        case "sqlite":
            return f"sqlite:///{tmp_path}/headway.db"
        case "sqlite-memory":
            return "sqlite:///:memory:"
        case _:
            make: Callable[[], Node] = request.getfixturevalue("a_node")
            return make().url


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    database = Database(parse_addresses([url]), durability="process")
    yield database
    await database.close()


@pytest.fixture
def silent_url(backend: str) -> str:
    """Return an address without a listener."""
    scheme = {"postgres": "postgresql", "mariadb": "mysql"}[backend]
    return f"{scheme}://headway:hush@127.0.0.1:{free_port()}/headway"
