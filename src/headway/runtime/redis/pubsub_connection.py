"""One pub/sub connection to one server, shared by all subscriptions of this process.

With redis-py's `PubSub`, this module would be about as long and subscribe at 70 % of the rate: a
cluster needs one command for each channel, and `PubSub` sends each command separately
(docs/adr/0019).
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ClusterError, MovedError, ResponseError
from redis.exceptions import ConnectionError as ConnectionLost

from headway.runtime.redis.address import RedisNode
from headway.runtime.redis.pipeline import (
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    CommandArgument,
    encode_commands,
)

PubSubMessage = Sequence[str]
MessageListener = Callable[[PubSubMessage], None]

RESYNC: Final[PubSubMessage] = ("resync",)
"""The message to listeners after a lost connection: earlier messages may be missing."""
PING_INTERVAL_S: Final = 5.0
SILENCE_MAX_S: Final = PING_INTERVAL_S + CALL_TIMEOUT_S
_COMMAND_BATCH_COUNT_MAX: Final = 1_000
_MESSAGE_BATCH_COUNT_MAX: Final = 1_000
_MESSAGE_KINDS: Final = (b"message", b"smessage")
_SUBSCRIBE_KINDS: Final = (b"subscribe", b"ssubscribe")
_UNSUBSCRIBE_KINDS: Final = (b"unsubscribe", b"sunsubscribe")


class Channel:
    """A channel and its listeners in this process."""

    __slots__ = ("confirmed", "listeners", "name")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.listeners: list[MessageListener] = []
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def confirm(self) -> None:
        """Mark the channel as subscribed: from now on no message is missed.

        Earlier messages may have been lost. On a repeated subscription the listeners get RESYNC.
        """
        if self.confirmed.done():
            self.notify(RESYNC)
        else:
            self.confirmed.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Raise `error` in all callers that wait for the subscription."""
        if not self.confirmed.done():
            self.confirmed.set_exception(error)

    def notify(self, message: PubSubMessage) -> None:
        for listener in tuple(self.listeners):
            listener(message)


class PubSubConnection:
    """A connection that is subscribed to all its `channels` whenever it is connected."""

    def __init__(
        self, node: RedisNode, make_connection: Callable[[RedisNode], AbstractConnection]
    ) -> None:
        self.node = node
        self.channels: dict[bytes, Channel] = {}
        self.has_received = False
        self._make_connection = make_connection
        self._is_sharded = True
        self._is_connected = False
        self._outbox: list[tuple[CommandArgument, ...]] = []
        self._outbox_filled = asyncio.Event()
        self._names_to_unsubscribe: set[bytes] = set()
        self._last_reply_s = 0.0

    def add(self, channel: Channel) -> None:
        self.channels[channel.name] = channel
        self._names_to_unsubscribe.discard(channel.name)
        self._send("SUBSCRIBE", channel.name)

    def remove(self, channel: Channel) -> None:
        """Remove the channel. It is unsubscribed with the next ping.

        Unsubscribing at once would slow down thousands of tasks that wake together.
        """
        del self.channels[channel.name]
        self._names_to_unsubscribe.add(channel.name)

    async def run(self) -> None:
        """Connect, subscribe to all channels, and deliver messages until the connection is lost.

        This method always ends with an error.
        """
        connection = self._make_connection(self.node)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                self._is_sharded = await _has_sharded_pubsub(connection)
            self._is_connected = True
            self._outbox.clear()
            self._names_to_unsubscribe.clear()
            for name in self.channels:
                self._send("SUBSCRIBE", name)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(connection))
                group.create_task(self._read(connection))
                group.create_task(self._ping())
        finally:
            self._is_connected = False
            await connection.disconnect(nowait=True)

    def _send(self, verb: str, name: bytes) -> None:
        if not self._is_connected:  # On connect, `run` subscribes to all channels.
            return
        self._outbox.append((f"S{verb}" if self._is_sharded else verb, name))
        self._outbox_filled.set()

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._outbox_filled.wait()
            commands = self._outbox[:_COMMAND_BATCH_COUNT_MAX]
            del self._outbox[:_COMMAND_BATCH_COUNT_MAX]
            if not self._outbox:
                self._outbox_filled.clear()
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await connection.send_packed_command(encode_commands(commands), check_health=False)

    async def _read(self, connection: AbstractConnection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(_MESSAGE_BATCH_COUNT_MAX):
                self._handle_reply(await connection.read_response(disconnect_on_error=False))
                self._last_reply_s = loop.time()
            await asyncio.sleep(0)  # Reading buffered replies does not yield to other tasks.

    async def _ping(self) -> None:
        """Ping the server, and raise if it sends nothing although the connection is open.

        Also unsubscribe from the channels that were removed since the last ping.
        """
        loop = asyncio.get_running_loop()
        self._last_reply_s = loop.time()
        while True:
            await asyncio.sleep(PING_INTERVAL_S)
            if loop.time() - self._last_reply_s > SILENCE_MAX_S:
                raise ConnectionLost(f"the server sent nothing for {SILENCE_MAX_S:g} s")
            for name in self._names_to_unsubscribe:
                self._send("UNSUBSCRIBE", name)
            self._names_to_unsubscribe.clear()
            self._outbox.append(("PING",))
            self._outbox_filled.set()

    def _handle_reply(self, reply: Any) -> None:
        self.has_received = True
        if not isinstance(reply, list):  # The reply to a PING.
            return
        kind, name = reply[0], reply[1]
        channel = self.channels.get(name)
        if channel is None:
            return
        if kind in _MESSAGE_KINDS:
            channel.notify(_parse_message(reply[2]))
        elif kind in _SUBSCRIBE_KINDS:
            channel.confirm()
        elif kind in _UNSUBSCRIBE_KINDS:
            # The slot has moved to another server, or the channel was removed and added again.
            self._send("SUBSCRIBE", name)


async def _has_sharded_pubsub(connection: AbstractConnection) -> bool:
    """Return True if the server has SPUBLISH, which the scripts try as well.

    A server that has the command but not the slot replies with MOVED or another cluster error.
    """
    await connection.send_command("SPUBLISH", "{hw:}:anyone", "")
    try:
        await connection.read_response(disconnect_on_error=False)
    except (MovedError, ClusterError):
        return True
    except ResponseError:
        return False
    return True


def _parse_message(text: bytes) -> PubSubMessage:
    """Parse a message. A message that headway did not send counts as RESYNC."""
    try:
        message = json.loads(text)
    except ValueError:
        return RESYNC
    return message if isinstance(message, list) and message else RESYNC
