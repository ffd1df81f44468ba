"""A new SQLite file for each test, and the servers, started when the first test needs them.

Each xdist worker has its own servers, so that a test may pause or kill one.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.bootstrap import upgrade_database
from tests.contract.backends import open_database_url, run_in_thread
from tests.servers import (
    MariaDBPair,
    MariaDBServer,
    PostgresPair,
    PostgresServer,
    RedisCluster,
    RedisServer,
    start_mariadb,
    start_mariadb_pair,
    start_postgres,
    start_postgres_pair,
    start_redis,
    start_redis_cluster,
)
from tests.servers.fixture import running

pytest_plugins = ["tests.servers.report"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--promise",
        action="append",
        default=[],
        metavar="ID",
        help="run only the tests that prove this id of docs/promises.md or docs/requirements.md",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    promise_ids = set(config.getoption("--promise"))
    if not promise_ids:
        return
    proofs = [item for item in items if promise_ids & _proven_ids(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(proofs)])
    items[:] = proofs


def _proven_ids(item: pytest.Item) -> set[str]:
    return {id_ for marker in item.iter_markers("proves") for id_ in marker.args}


@pytest.fixture(scope="session")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy: migrating for every test would take longer than the tests."""
    path = tmp_path_factory.mktemp("upgraded") / "headway.db"
    run_in_thread(lambda: upgrade_database([f"sqlite:///{path}"]))
    return path


@pytest.fixture
def url(upgraded_file: Path, tmp_path: Path) -> str:
    """A new SQLite database."""
    shutil.copy(upgraded_file, tmp_path / "headway.db")
    return f"sqlite:///{tmp_path}/headway.db"


@pytest.fixture
def database_url(request: pytest.FixtureRequest, backend: str) -> Iterator[str]:
    """Yield the URL of a new database on the backend that the test names."""
    with open_database_url(backend, request) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    yield from running(start_postgres, request)


@pytest.fixture(scope="session")
def mariadb_server(request: pytest.FixtureRequest) -> Iterator[MariaDBServer]:
    yield from running(start_mariadb, request)


@pytest.fixture(scope="session")
def redis_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    yield from running(start_redis, request)


@pytest.fixture(scope="module")
def postgres_pair(request: pytest.FixtureRequest) -> Iterator[PostgresPair]:
    """A primary and its standby. A test that changes their roles changes them back."""
    yield from running(start_postgres_pair, request)


@pytest.fixture(scope="module")
def mariadb_pair(request: pytest.FixtureRequest) -> Iterator[MariaDBPair]:
    """Two plain servers, the second read-only. A test that changes that changes it back."""
    yield from running(start_mariadb_pair, request)


@pytest.fixture(scope="module")
def redis_cluster(request: pytest.FixtureRequest) -> Iterator[RedisCluster]:
    yield from running(start_redis_cluster, request)
