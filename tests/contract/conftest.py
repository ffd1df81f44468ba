"""A store on every backend, on a clock that the test moves."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headway.adapters.sql.sql_store import SqlStore
from headway.testing import FakeClock
from tests.contract.backends import (
    BACKENDS,
    Place,
    closed_port,
    database_on,
    empty,
    opened,
    opened_beside,
    run_apart,
    upgrade,
)
from tests.servers import MariaDBServer, PostgresServer


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def new_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To copy from: to run the migrations for every test would take longer than the tests."""
    path = tmp_path_factory.mktemp("sqlite") / "new.db"
    run_apart(lambda: upgrade(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    with database_on(postgres_server) as name:
        yield name


@pytest.fixture(scope="session")
def mariadb_database(mariadb_server: MariaDBServer) -> Iterator[str]:
    with database_on(mariadb_server) as name:
        yield name


@pytest.fixture(scope="session")
def dead_port() -> Iterator[int]:
    with closed_port() as port:
        yield port


@pytest.fixture
def place(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    family, _, kind = backend.partition("-")
    if kind == "memory":
        return Place(backend, ["sqlite:///:memory:"])
    if family == "sqlite":
        path = tmp_path / "headway.db"
        shutil.copy(request.getfixturevalue("new_sqlite_file"), path)
        return Place(backend, [f"sqlite:///{path}"])
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{family}_server")
    name: str = request.getfixturevalue(f"{family}_database")
    empty(server, name)
    url = server.url(name)
    if kind == "several":
        dead_url = url.replace(f":{server.port}/", f":{request.getfixturevalue('dead_port')}/")
        return Place(backend, [dead_url, url])
    return Place(backend, [url])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(place: Place, clock: FakeClock) -> AsyncIterator[SqlStore]:
    async with opened(place, clock) as opened_store:
        yield opened_store


@pytest.fixture
async def another_store(store: SqlStore, place: Place, clock: FakeClock) -> AsyncIterator[SqlStore]:
    async with opened_beside(store, place, clock) as opened_store:
        yield opened_store
