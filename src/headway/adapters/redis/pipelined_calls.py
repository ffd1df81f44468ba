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

from headway.adapters.redis.address import Node, RedisAddress
from headway.adapters.redis.pipeline import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S, FAULTS, Pipe, Word
from headway.core.errors import RuntimeUnavailable

_ATTEMPT_COUNT: Final = 3


class Calls:
    """Made for the event loop that uses it first; connects when it is used."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._kind = SSLConnection if address.is_tls else Connection
        self._arguments = {
            **address.arguments,
            # Calls are bounded by us: the driver's own limit can swallow a cancel.
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
        }
        self._driver = self._open()
        self._pipes: dict[Node, Pipe] = {}
        self._scripts: dict[str, AsyncScript] = {}
        self._knows_servers = not address.is_cluster
        self._asking = asyncio.Lock()
        self._asked_count = 0
        self._fault: Exception | None = None

    @property
    def is_cluster(self) -> bool:
        return self._address.is_cluster

    async def run(self, source: str, *, keys: Sequence[bytes], values: Sequence[Word] = ()) -> Any:
        """What the script returns; RuntimeUnavailable within seconds."""
        script = self._scripts.get(source)
        if script is None:
            script = self._scripts[source] = self._driver.register_script(source)
        found = script
        words = ("EVALSHA", script.sha, len(keys), *keys, *values)
        return await self._call(keys[0], words, lambda: found(keys=keys, args=values), source)

    async def read(self, *keys: bytes) -> list[bytes | None]:
        """The values of keys of one entity, as of one instant."""
        values = await self._call(keys[0], ("MGET", *keys), lambda: self._driver.mget(keys))
        return list(values)

    async def node_of(self, key: bytes) -> Node:
        """The server that has the key, as far as is known."""
        if not isinstance(self._driver, RedisCluster):
            return self._address.nodes[0]
        if not self._knows_servers:
            await self.learn_servers()
        try:
            node = self._driver.get_node_from_key(key)  # type: ignore[arg-type]
        except RedisClusterException as error:
            self._knows_servers = False
            raise self._unavailable(error) from error
        assert node is not None  # Only a replica may be none.
        return Node(str(node.host), int(node.port))

    async def learn_servers(self) -> None:
        """Ask the cluster who has which keys now; all who ask meanwhile share the answer."""
        assert isinstance(self._driver, RedisCluster)
        asked = self._asked_count
        async with self._asking:
            if self._asked_count == asked:
                self._fault = None
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        await self._driver.nodes_manager.initialize()
                except FAULTS as error:
                    self._fault = error
                self._asked_count += 1
        if self._fault is not None:
            raise self._unavailable(self._fault) from self._fault
        self._knows_servers = True

    def dial(self, node: Node) -> AbstractConnection:
        """A connection of one's own; not connected yet."""
        return self._kind(host=node.host, port=node.port, **self._arguments)

    async def close(self) -> None:
        for pipe in self._pipes.values():
            await pipe.close()
        await self._driver.aclose()
        if isinstance(self._driver, RedisCluster):  # Also what a failed beginning has left.
            await self._driver.nodes_manager.aclose()
            await self._driver.nodes_manager.aclose("startup_nodes")

    async def _call(
        self,
        key: bytes,
        words: tuple[Word, ...],
        by_driver: Callable[[], Awaitable[Any]],
        source: str = "",
    ) -> Any:
        try:
            for _ in range(_ATTEMPT_COUNT):
                pipe = self._pipe_to(await self.node_of(key))
                try:
                    return await pipe.call(*words)
                except NoScriptError:
                    await pipe.load(source)
                except MovedError:
                    await self.learn_servers()
                except AskError:
                    break
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await by_driver()  # It follows keys that are on their way.
        except FAULTS as error:
            self._knows_servers = not self.is_cluster
            raise self._unavailable(error) from error

    def _pipe_to(self, node: Node) -> Pipe:
        pipe = self._pipes.get(node)
        if pipe is None:
            pipe = Pipe(self._kind, host=node.host, port=node.port, **self._arguments)
            self._pipes[node] = pipe
        return pipe

    def _unavailable(self, error: BaseException) -> RuntimeUnavailable:
        return RuntimeUnavailable(self._address.display, reason_of(error))

    def _open(self) -> Redis | RedisCluster:
        if self._address.is_cluster:
            return RedisCluster(
                startup_nodes=[ClusterNode(node.host, node.port) for node in self._address.nodes],
                ssl=self._address.is_tls,
                # A part that has lost its server does not take the others with it.
                require_full_coverage=False,
                **self._arguments,
            )
        node = self._address.nodes[0]
        pool = ConnectionPool(self._kind, host=node.host, port=node.port, **self._arguments)
        return Redis.from_pool(pool)


def reason_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"it did not answer within {CALL_TIMEOUT_S:g} s"
    return str(error).rstrip(".") or type(error).__name__
