"""Calls to one server or a cluster, with a timeout. Every error becomes RuntimeUnavailable.

A call goes directly to the server that has its keys. It is repeated only if that server reports
that it did nothing: it does not have the script, or the keys have moved to another server. A call
that failed otherwise may have taken effect: a repetition could queue a message twice, or refuse an
answer that was accepted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection, Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import AskError, MovedError, NoScriptError, RedisClusterException

from headway.core.errors import RuntimeUnavailable
from headway.runtime.redis.address import RedisAddress, RedisNode
from headway.runtime.redis.pipeline import (
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    REDIS_ERRORS,
    CommandArgument,
    Pipeline,
)

_ATTEMPT_COUNT_MAX: Final = 3


class RedisClient:
    """A client for the event loop that uses it first. It connects on first use."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._connection_class = SSLConnection if address.is_tls else Connection
        self._connection_arguments = {
            **address.connection_arguments,
            # `Pipeline` sets the timeouts: the driver's own timeout can swallow a cancellation.
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }
        self._driver = self._open_driver()
        self._pipelines: dict[RedisNode, Pipeline] = {}
        self._scripts: dict[str, AsyncScript] = {}
        self._has_topology = not address.is_cluster
        self._topology_lock = asyncio.Lock()
        self._topology_read_count = 0
        self._topology_error: Exception | None = None

    @property
    def is_cluster(self) -> bool:
        return self._address.is_cluster

    async def run_script(
        self, source: str, *, keys: Sequence[bytes], values: Sequence[CommandArgument] = ()
    ) -> Any:
        """Run a script and return its result. Raise RuntimeUnavailable within seconds."""
        script = self._scripts.get(source)
        if script is None:
            script = self._scripts[source] = self._driver.register_script(source)
        registered = script
        command = ("EVALSHA", script.sha, len(keys), *keys, *values)
        return await self._call(
            keys[0], command, lambda: registered(keys=keys, args=values), source
        )

    async def read_values(self, *keys: bytes) -> list[bytes | None]:
        """Return the values of keys of one entity, as of one instant."""
        values = await self._call(keys[0], ("MGET", *keys), lambda: self._driver.mget(keys))
        return list(values)

    async def node_of(self, key: bytes) -> RedisNode:
        """Return the server that has the key, according to the topology that was read last."""
        if not isinstance(self._driver, RedisCluster):
            return self._address.nodes[0]
        if not self._has_topology:
            await self.load_topology()
        try:
            node = self._driver.get_node_from_key(key)  # type: ignore[arg-type]
        except RedisClusterException as error:
            self._has_topology = False
            raise self._to_unavailable(error) from error
        assert node is not None  # None is possible only for a replica.
        return RedisNode(str(node.host), int(node.port))

    async def load_topology(self) -> None:
        """Read from the cluster which server has which keys. Concurrent callers share one read."""
        assert isinstance(self._driver, RedisCluster)
        read_count = self._topology_read_count
        async with self._topology_lock:
            if self._topology_read_count == read_count:
                self._topology_error = None
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await self._driver.nodes_manager.initialize()
                except REDIS_ERRORS as error:
                    self._topology_error = error
                self._topology_read_count += 1
        if self._topology_error is not None:
            raise self._to_unavailable(self._topology_error) from self._topology_error
        self._has_topology = True

    def make_connection(self, node: RedisNode) -> AbstractConnection:
        """Return a new connection that is not connected yet and not shared with calls."""
        return self._connection_class(host=node.host, port=node.port, **self._connection_arguments)

    async def close(self) -> None:
        for pipeline in self._pipelines.values():
            await pipeline.close()
        await self._driver.aclose()
        if isinstance(self._driver, RedisCluster):  # Also connections of a failed initialization.
            await self._driver.nodes_manager.aclose()
            await self._driver.nodes_manager.aclose("startup_nodes")

    async def _call(
        self,
        key: bytes,
        command: tuple[CommandArgument, ...],
        call_driver: Callable[[], Awaitable[Any]],
        source: str = "",
    ) -> Any:
        try:
            for _ in range(_ATTEMPT_COUNT_MAX):
                pipeline = self._pipeline_to(await self.node_of(key))
                try:
                    return await pipeline.call(*command)
                except NoScriptError:
                    await pipeline.load_script(source)
                except MovedError:
                    await self.load_topology()
                except AskError:
                    break
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await call_driver()  # The driver follows keys that are being migrated.
        except REDIS_ERRORS as error:
            self._has_topology = not self.is_cluster
            raise self._to_unavailable(error) from error

    def _pipeline_to(self, node: RedisNode) -> Pipeline:
        pipeline = self._pipelines.get(node)
        if pipeline is None:
            pipeline = Pipeline(
                self._connection_class, host=node.host, port=node.port, **self._connection_arguments
            )
            self._pipelines[node] = pipeline
        return pipeline

    def _to_unavailable(self, error: BaseException) -> RuntimeUnavailable:
        return RuntimeUnavailable(self._address.display, error_reason(error))

    def _open_driver(self) -> Redis | RedisCluster:
        if self._address.is_cluster:
            return RedisCluster(
                startup_nodes=[ClusterNode(node.host, node.port) for node in self._address.nodes],
                ssl=self._address.is_tls,
                # Slots without a server must not make the other slots unavailable.
                require_full_coverage=False,
                **self._connection_arguments,
            )
        node = self._address.nodes[0]
        pool = ConnectionPool(
            self._connection_class, host=node.host, port=node.port, **self._connection_arguments
        )
        return Redis.from_pool(pool)


def error_reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"the server did not answer within {CALL_TIMEOUT_S:g} s"
    return str(error).rstrip(".") or type(error).__name__
