"""Receives messages for all listeners of this process, over one connection to each server.

Connections reconnect by themselves while there are listeners. After an interruption every listener
receives RESYNC once its channel is subscribed again: messages published in between are lost, but
the values in Redis are not.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.core.errors import RuntimeUnavailable, StoreClosed
from headway.log import event_log
from headway.runtime.redis.address import RedisNode
from headway.runtime.redis.pipeline import REDIS_ERRORS
from headway.runtime.redis.pipelined_calls import RedisClient, error_reason
from headway.runtime.redis.pubsub_connection import Channel, MessageListener, PubSubConnection

RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 2.0

log = event_log(__name__)


class Subscriber:
    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._channels: dict[bytes, tuple[Channel, PubSubConnection]] = {}
        self._connections: dict[RedisNode, PubSubConnection] = {}
        self._tasks: dict[PubSubConnection, asyncio.Task[None]] = {}
        self._is_closed = False

    @asynccontextmanager
    async def open_subscription(
        self, name: bytes, listener: MessageListener
    ) -> AsyncIterator[None]:
        await self.subscribe(name, listener)
        try:
            yield
        finally:
            self.unsubscribe(name, listener)

    async def subscribe(self, name: bytes, listener: MessageListener) -> None:
        """Subscribe `listener` to the channel `name`. Return once no later message can be missed.

        Raise RuntimeUnavailable if the connection fails. While the connection works, the call waits
        for the server's confirmation without a time limit.
        """
        node = await self._client.node_of(name)
        if self._is_closed:
            raise StoreClosed
        if name not in self._channels:
            connection = self._connection_to(node)
            self._channels[name] = Channel(name), connection
            connection.add(self._channels[name][0])
        channel, _ = self._channels[name]
        channel.listeners.append(listener)
        try:
            await asyncio.shield(channel.confirmed)
        except BaseException:
            self.unsubscribe(name, listener)
            raise

    def unsubscribe(self, name: bytes, listener: MessageListener) -> None:
        channel, connection = self._channels.get(name, (None, None))
        if channel is None or connection is None or listener not in channel.listeners:
            return
        channel.listeners.remove(listener)
        if not channel.listeners:
            del self._channels[name]
            connection.remove(channel)

    async def close(self) -> None:
        """Close all connections. Callers that wait for a subscription get StoreClosed."""
        self._is_closed = True
        for channel, _ in self._channels.values():
            channel.fail(StoreClosed())
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connection_to(self, node: RedisNode) -> PubSubConnection:
        connection = self._connections.get(node)
        if connection is None:
            connection = PubSubConnection(node, self._client.make_connection)
            self._connections[node] = connection
            self._tasks[connection] = asyncio.create_task(self._keep_connected(connection))
        return connection

    async def _keep_connected(self, connection: PubSubConnection) -> None:
        """Keep `connection` connected. Stop after a loss if the connection has no listeners."""
        retry_s = RETRY_MIN_S
        while True:
            try:
                await connection.run()
            except* REDIS_ERRORS as errors:
                reason = error_reason(_first_error(errors))
                extra = {"node": str(connection.node), "reason": reason}
                log.warning("runtime_connection_lost", extra=extra)
                for channel in connection.channels.values():
                    channel.fail(RuntimeUnavailable(str(connection.node), reason))
            retry_s = RETRY_MIN_S if connection.has_received else min(2 * retry_s, RETRY_MAX_S)
            connection.has_received = False
            await asyncio.sleep(retry_s)
            await self._reroute(connection)
            if not connection.channels:
                del self._connections[connection.node], self._tasks[connection]
                break

    async def _reroute(self, connection: PubSubConnection) -> None:
        """Move channels of a lost connection to the servers that have them in the cluster now."""
        if not self._client.is_cluster:
            return
        try:
            await self._client.load_topology()
            routes = {name: await self._client.node_of(name) for name in tuple(connection.channels)}
        except RuntimeUnavailable:
            return
        for name, node in routes.items():
            channel = connection.channels.get(name)
            if channel is not None and node != connection.node:
                connection.remove(channel)
                other = self._connection_to(node)
                self._channels[name] = channel, other
                other.add(channel)


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
