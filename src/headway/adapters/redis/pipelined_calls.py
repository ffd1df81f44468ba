"""Calls of one server or of a cluster: bounded in time, every fault as one kind of error.

A call goes straight to the server that has its keys. It is repeated only when that server says that
it did nothing: it does not know the script, or the keys are elsewhere by now. A call that failed
otherwise may have been done, and a message would be queued twice, an answer refused although it was
taken.
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

from headway.adapters.redis.address import RedisAddress, RedisNode
from headway.adapters.redis.pipeline import (
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    REDIS_ERRORS,
    CommandArgument,
    Pipeline,
)
from headway.core.errors import RuntimeUnavailable

_ATTEMPT_COUNT_MAX: Final = 3


class RedisClient:
    """Made for the event loop that uses it first; connects when it is used."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._connection_class = SSLConnection if address.is_tls else Connection
        self._connection_arguments = {
            **address.connection_arguments,
            # Calls are bounded by us: the driver's own limit can swallow a cancel.
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
        """What the script returns; RuntimeUnavailable within seconds."""
        script = self._scripts.get(source)
        if script is None:
            script = self._scripts[source] = self._driver.register_script(source)
        found = script
        words = ("EVALSHA", script.sha, len(keys), *keys, *values)
        return await self._call(keys[0], words, lambda: found(keys=keys, args=values), source)

    async def read_values(self, *keys: bytes) -> list[bytes | None]:
        """The values of keys of one entity, as of one instant."""
        values = await self._call(keys[0], ("MGET", *keys), lambda: self._driver.mget(keys))
        return list(values)

    async def node_of(self, key: bytes) -> RedisNode:
        """The server that has the key, as far as is known."""
        if not isinstance(self._driver, RedisCluster):
            return self._address.nodes[0]
        if not self._has_topology:
            await self.load_topology()
        try:
            node = self._driver.get_node_from_key(key)  # type: ignore[arg-type]
        except RedisClusterException as error:
            self._has_topology = False
            raise self._to_unavailable(error) from error
        assert node is not None  # Only a replica may be none.
        return RedisNode(str(node.host), int(node.port))

    async def load_topology(self) -> None:
        """Ask the cluster who has which keys now; all who ask meanwhile share the answer."""
        assert isinstance(self._driver, RedisCluster)
        asked = self._topology_read_count
        async with self._topology_lock:
            if self._topology_read_count == asked:
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
        """A connection of one's own; not connected yet."""
        return self._connection_class(host=node.host, port=node.port, **self._connection_arguments)

    async def close(self) -> None:
        for pipe in self._pipelines.values():
            await pipe.close()
        await self._driver.aclose()
        if isinstance(self._driver, RedisCluster):  # Also what a failed beginning has left.
            await self._driver.nodes_manager.aclose()
            await self._driver.nodes_manager.aclose("startup_nodes")

    async def _call(
        self,
        key: bytes,
        words: tuple[CommandArgument, ...],
        by_driver: Callable[[], Awaitable[Any]],
        source: str = "",
    ) -> Any:
        try:
            for _ in range(_ATTEMPT_COUNT_MAX):
                pipe = self._pipeline_to(await self.node_of(key))
                try:
                    return await pipe.call(*words)
                except NoScriptError:
                    await pipe.load_script(source)
                except MovedError:
                    await self.load_topology()
                except AskError:
                    break
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await by_driver()  # It follows keys that are on their way.
        except REDIS_ERRORS as error:
            self._has_topology = not self.is_cluster
            raise self._to_unavailable(error) from error

    def _pipeline_to(self, node: RedisNode) -> Pipeline:
        pipe = self._pipelines.get(node)
        if pipe is None:
            pipe = Pipeline(
                self._connection_class, host=node.host, port=node.port, **self._connection_arguments
            )
            self._pipelines[node] = pipe
        return pipe

    def _to_unavailable(self, error: BaseException) -> RuntimeUnavailable:
        return RuntimeUnavailable(self._address.display, error_reason(error))

    def _open_driver(self) -> Redis | RedisCluster:
        if self._address.is_cluster:
            return RedisCluster(
                startup_nodes=[ClusterNode(node.host, node.port) for node in self._address.nodes],
                ssl=self._address.is_tls,
                # A part that has lost its server does not take the others with it.
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
        return f"it did not answer within {CALL_TIMEOUT_S:g} s"
    return str(error).rstrip(".") or type(error).__name__
