"""Calls to one server or a cluster, with a timeout. Every error becomes RuntimeUnavailable.

A call goes directly to the server that has its keys. The call is repeated only if that server
reports that it did nothing. Either the server does not have the script yet, which is then sent in
full, or the keys have moved to another server. A call that failed for any other reason may have
taken effect: repeating it could queue a message twice, or refuse an answer that was accepted.
"""

import asyncio
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
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
_CLUSTER_HINT: Final = "the server is part of a cluster; write redis+cluster:// in the URL"
_Command = tuple[CommandArgument, ...]


class RedisClient:
    """A client that connects on first use and belongs to the event loop that uses it first."""

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
        self._cluster = self._open_cluster() if address.is_cluster else None
        self._pipelines: dict[RedisNode, Pipeline] = {}
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
        """Run a script and return its result.

        Raise RuntimeUnavailable within seconds if that fails.
        """
        arguments: _Command = (len(keys), *keys, *values)
        by_digest = ("EVALSHA", _digest(source), *arguments)
        return await self._call(keys[0], by_digest, ("EVAL", source, *arguments))

    async def read_values(self, *keys: bytes) -> list[bytes | None]:
        """Return the values of Redis keys that share a hash tag, as of one instant."""
        command: _Command = ("MGET", *keys)
        values: list[bytes | None] = await self._call(keys[0], command, command)
        return values

    async def node_of(self, key: bytes) -> RedisNode:
        """Return the server that has the key, according to the topology that was read last."""
        if self._cluster is None:
            return self._address.nodes[0]
        if not self._has_topology:
            await self.load_topology()
        try:
            node = self._cluster.get_node_from_key(key)  # type: ignore[arg-type]
        except RedisClusterException as error:
            self._has_topology = False
            raise self._to_unavailable(error) from error
        assert node is not None  # None is possible only for a replica.
        return RedisNode(str(node.host), int(node.port))

    async def load_topology(self) -> None:
        """Read from the cluster which server has which keys. Concurrent callers share one read."""
        assert self._cluster is not None
        read_count = self._topology_read_count
        async with self._topology_lock:
            if self._topology_read_count == read_count:
                self._topology_error = None
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await self._cluster.nodes_manager.initialize()
                except REDIS_ERRORS as error:
                    self._topology_error = error
                self._topology_read_count += 1
        if self._topology_error is not None:
            raise self._to_unavailable(self._topology_error) from self._topology_error
        self._has_topology = True

    def make_connection(self, node: RedisNode) -> AbstractConnection:
        """Return a new connection object for `node`, which is not connected yet.

        It is never used for calls.
        """
        return self._connection_class(host=node.host, port=node.port, **self._connection_arguments)

    async def close(self) -> None:
        for pipeline in self._pipelines.values():
            await pipeline.close()
        if self._cluster is not None:  # Also close connections of a failed start.
            await self._cluster.aclose()
            await self._cluster.nodes_manager.aclose()
            await self._cluster.nodes_manager.aclose("startup_nodes")

    async def _call(self, key: bytes, command: _Command, whole_command: _Command) -> Any:
        """Send `command`. If the server lacks the script, send `whole_command` instead."""
        try:
            for _ in range(_ATTEMPT_COUNT_MAX):
                pipeline = self._pipeline_to(await self.node_of(key))
                try:
                    return await pipeline.call(*command)
                except NoScriptError:
                    command = whole_command
                except AskError as error:
                    if self._cluster is None:
                        raise RedisClusterException(_CLUSTER_HINT) from error
                    if not isinstance(error, MovedError):
                        break
                    await self.load_topology()
            assert self._cluster is not None  # A single server answers by the second attempt.
            async with asyncio.timeout(CALL_TIMEOUT_S):
                # redis-py follows the redirections for keys that are being migrated.
                await self._cluster.initialize()
                return await self._cluster.execute_command(*whole_command)
        except REDIS_ERRORS as error:
            self._has_topology = self._cluster is None
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

    def _open_cluster(self) -> RedisCluster:
        return RedisCluster(
            startup_nodes=[ClusterNode(node.host, node.port) for node in self._address.nodes],
            ssl=self._address.is_tls,
            # Slots without a server must not make the other slots unavailable.
            require_full_coverage=False,
            **self._connection_arguments,
        )


@cache
def _digest(source: str) -> str:
    """Return the name under which a server caches the script."""
    return sha1(source.encode(), usedforsecurity=False).hexdigest()


def error_reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"the server did not answer within {CALL_TIMEOUT_S:g} s"
    return str(error).rstrip(".") or type(error).__name__
