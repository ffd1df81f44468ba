"""The servers, as fixtures: started when the first test asks, one set for each test process.

Each xdist worker has servers of its own, so that a test may pause or kill one.
"""

from collections.abc import Iterator

import pytest

from tests.services import (
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
from tests.services.fixture import running

pytest_plugins = ["tests.services.report"]


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
