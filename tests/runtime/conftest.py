"""A runtime store on every backend, and a second one that shares what it holds."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.runtime.scenes import BACKENDS, CLASSIC, Place, Runtime
from tests.servers import RedisCluster, RedisServer, start_redis, start_valkey
from tests.servers.fixture import running


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def classic_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    yield from running(lambda: start_redis(settings=CLASSIC), request)


@pytest.fixture(scope="session")
def valkey_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    yield from running(start_valkey, request)


@pytest.fixture
def place(backend: str, request: pytest.FixtureRequest) -> Place:
    match backend:
        case "memory":
            return Place(backend, None)
        case "redis-cluster":
            cluster: RedisCluster = request.getfixturevalue("redis_cluster")
            return Place(backend, url_of(cluster))
        case _:
            name = backend.removeprefix("redis-")
            server: RedisServer = request.getfixturevalue(f"{name}_server")
            return Place(backend, server.url)


def url_of(cluster: RedisCluster) -> str:
    nodes = ",".join(f"{node.host}:{node.port}" for node in cluster.nodes)
    return f"redis+cluster://{nodes}"


@pytest.fixture
async def runtime(place: Place) -> AsyncIterator[Runtime]:
    async with place.opened() as store:
        yield store


@pytest.fixture
async def another(place: Place, runtime: Runtime) -> AsyncIterator[Runtime]:
    """What another instance uses. In memory there is only one."""
    if place.is_memory:
        yield runtime
        return
    async with place.opened() as store:
        yield store
