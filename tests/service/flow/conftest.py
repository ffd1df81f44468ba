"""A database on each backend, under the one address that programs are given."""

from collections.abc import Iterator

import pytest

from tests.contract.backends import database_on
from tests.services import MariaDBServer, PostgresServer


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(request: pytest.FixtureRequest, backend: str) -> Iterator[str]:
    if backend == "sqlite":
        yield request.getfixturevalue("url")
        return
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    with database_on(server) as name:
        yield server.url(name)
