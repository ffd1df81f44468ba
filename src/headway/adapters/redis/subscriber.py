"""Hears for everybody in this process: one line to each server, however many wait.

Lines connect by themselves, again and again while anybody listens. After an interruption every
listener is told to look, once its channel is subscribed to again: what was said meanwhile is gone,
what was written is not.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.adapters.redis.address import RedisNode
from headway.adapters.redis.pipeline import REDIS_ERRORS
from headway.adapters.redis.pipelined_calls import RedisClient, error_reason
from headway.adapters.redis.pubsub_connection import Channel, MessageListener, PubSubConnection
from headway.core.errors import RuntimeUnavailable, StoreClosed
from headway.log import event_log

RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 2.0

log = event_log(__name__)


class Subscriber:
    def __init__(self, calls: RedisClient) -> None:
        self._client = calls
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
        """Returns when nothing that is said from now on will be missed.

        RuntimeUnavailable: the line cannot be used. While it can, this waits for its turn.
        """
        node = await self._client.node_of(name)
        if self._is_closed:
            raise StoreClosed
        if name not in self._channels:
            line = self._connection_to(node)
            self._channels[name] = Channel(name), line
            line.add(self._channels[name][0])
        channel, _ = self._channels[name]
        channel.listeners.append(listener)
        try:
            await asyncio.shield(channel.confirmed)
        except BaseException:
            self.unsubscribe(name, listener)
            raise

    def unsubscribe(self, name: bytes, listener: MessageListener) -> None:
        channel, line = self._channels.get(name, (None, None))
        if channel is None or line is None or listener not in channel.listeners:
            return
        channel.listeners.remove(listener)
        if not channel.listeners:
            del self._channels[name]
            line.remove(channel)

    async def close(self) -> None:
        """Whoever still wants to begin to listen gets StoreClosed."""
        self._is_closed = True
        for channel, _ in self._channels.values():
            channel.fail(StoreClosed())
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _connection_to(self, node: RedisNode) -> PubSubConnection:
        line = self._connections.get(node)
        if line is None:
            line = self._connections[node] = PubSubConnection(node, self._client.make_connection)
            self._tasks[line] = asyncio.create_task(self._keep_connected(line))
        return line

    async def _keep_connected(self, line: PubSubConnection) -> None:
        """Keep the line up for as long as somebody listens on it, or it does not break."""
        retry_s = RETRY_MIN_S
        while True:
            try:
                await line.run()
            except* REDIS_ERRORS as faults:
                reason = error_reason(_first_error(faults))
                log.warning("runtime_line_lost", extra={"node": str(line.node), "reason": reason})
                for channel in line.channels.values():
                    channel.fail(RuntimeUnavailable(str(line.node), reason))
            retry_s = RETRY_MIN_S if line.has_received else min(2 * retry_s, RETRY_MAX_S)
            line.has_received = False
            await asyncio.sleep(retry_s)
            await self._reroute(line)
            if not line.channels:
                del self._connections[line.node], self._tasks[line]
                break

    async def _reroute(self, line: PubSubConnection) -> None:
        """A cluster may have given the channels of a lost line to other servers."""
        if not self._client.is_cluster:
            return
        try:
            await self._client.load_topology()
            routes = {name: await self._client.node_of(name) for name in tuple(line.channels)}
        except RuntimeUnavailable:
            return
        for name, node in routes.items():
            channel = line.channels.get(name)
            if channel is not None and node != line.node:
                line.remove(channel)
                other = self._connection_to(node)
                self._channels[name] = channel, other
                other.add(channel)


def _first_error(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    first = faults.exceptions[0]
    return _first_error(first) if isinstance(first, BaseExceptionGroup) else first
