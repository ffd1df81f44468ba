"""A runtime store on every backend, and a second store that shares its data."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.runtime.scenes import BACKENDS, CLASSIC, Runtime, RuntimeTarget
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
def target(backend: str, request: pytest.FixtureRequest) -> RuntimeTarget:
    match backend:
        case "memory":
            return RuntimeTarget(backend, None)
        case "redis-cluster":
            cluster: RedisCluster = request.getfixturevalue("redis_cluster")
            return RuntimeTarget(backend, url_of(cluster))
        case _:
            name = backend.removeprefix("redis-")
            server: RedisServer = request.getfixturevalue(f"{name}_server")
            return RuntimeTarget(backend, server.url)


def url_of(cluster: RedisCluster) -> str:
    nodes = ",".join(f"{node.host}:{node.port}" for node in cluster.nodes)
    return f"redis+cluster://{nodes}"


@pytest.fixture
async def runtime(target: RuntimeTarget) -> AsyncIterator[Runtime]:
    async with target.open() as store:
        yield store


@pytest.fixture
async def another(target: RuntimeTarget, runtime: Runtime) -> AsyncIterator[Runtime]:
    """The store of a second instance. The memory backend has only one store."""
    if target.is_memory:
        yield runtime
        return
    async with target.open() as store:
        yield store
