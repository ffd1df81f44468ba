"""Hears for everybody in this process: one line to each server, however many wait.

Lines connect by themselves, again and again while anybody listens. After an interruption every
listener is told to look, once its channel is subscribed to again: what was said meanwhile is gone,
what was written is not.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headway.adapters.redis.address import Node
from headway.adapters.redis.pipeline import FAULTS
from headway.adapters.redis.pipelined_calls import Calls, reason_of
from headway.adapters.redis.pubsub_connection import Channel, Line, Listener
from headway.core.errors import RuntimeUnavailable, StoreClosed
from headway.log import event_log

RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 2.0

log = event_log(__name__)


class Subscriber:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._channels: dict[bytes, tuple[Channel, Line]] = {}
        self._lines: dict[Node, Line] = {}
        self._tasks: dict[Line, asyncio.Task[None]] = {}
        self._is_closed = False

    @asynccontextmanager
    async def listening(self, name: bytes, listener: Listener) -> AsyncIterator[None]:
        await self.listen(name, listener)
        try:
            yield
        finally:
            self.forget(name, listener)

    async def listen(self, name: bytes, listener: Listener) -> None:
        """Returns when nothing that is said from now on will be missed.

        RuntimeUnavailable: the line cannot be used. While it can, this waits for its turn.
        """
        node = await self._calls.node_of(name)
        if self._is_closed:
            raise StoreClosed
        if name not in self._channels:
            line = self._line_to(node)
            self._channels[name] = Channel(name), line
            line.add(self._channels[name][0])
        channel, _ = self._channels[name]
        channel.listeners.append(listener)
        try:
            await asyncio.shield(channel.confirmed)
        except BaseException:
            self.forget(name, listener)
            raise

    def forget(self, name: bytes, listener: Listener) -> None:
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

    def _line_to(self, node: Node) -> Line:
        line = self._lines.get(node)
        if line is None:
            line = self._lines[node] = Line(node, self._calls.dial)
            self._tasks[line] = asyncio.create_task(self._keep(line))
        return line

    async def _keep(self, line: Line) -> None:
        """Keep the line up for as long as somebody listens on it, or it does not break."""
        retry_s = RETRY_MIN_S
        while True:
            try:
                await line.talk()
            except* FAULTS as faults:
                reason = reason_of(_first(faults))
                log.warning("runtime_line_lost", extra={"node": str(line.node), "reason": reason})
                for channel in line.channels.values():
                    channel.fail(RuntimeUnavailable(str(line.node), reason))
            retry_s = RETRY_MIN_S if line.was_up else min(2 * retry_s, RETRY_MAX_S)
            line.was_up = False
            await asyncio.sleep(retry_s)
            await self._reroute(line)
            if not line.channels:
                del self._lines[line.node], self._tasks[line]
                break

    async def _reroute(self, line: Line) -> None:
        """A cluster may have given the channels of a lost line to other servers."""
        if not self._calls.is_cluster:
            return
        try:
            await self._calls.learn_servers()
            routes = {name: await self._calls.node_of(name) for name in tuple(line.channels)}
        except RuntimeUnavailable:
            return
        for name, node in routes.items():
            channel = line.channels.get(name)
            if channel is not None and node != line.node:
                line.remove(channel)
                other = self._line_to(node)
                self._channels[name] = channel, other
                other.add(channel)


def _first(faults: BaseExceptionGroup[BaseException]) -> BaseException:
    first = faults.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
