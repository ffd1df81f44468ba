"""One connection to one server, over which this process hears of all runs that it asks about."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ClusterError, MovedError, ResponseError
from redis.exceptions import ConnectionError as ConnectionLost

from headway.adapters.redis.address import Node
from headway.adapters.redis.pipeline import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S, Word, packed

Words = Sequence[str]
Listener = Callable[[Words], None]

LOOK: Final[Words] = ("look",)
"""Something may have been said while nobody listened."""
PING_EVERY_S: Final = 5.0
SILENCE_MAX_S: Final = PING_EVERY_S + CALL_TIMEOUT_S
LEAVE_AFTER_S: Final = 1.0
"""A channel is left a little later: when thousands wake at once, that can wait."""
_COMMANDS_AT_ONCE: Final = 1_000
_MESSAGES_AT_ONCE: Final = 1_000
_MESSAGES: Final = (b"message", b"smessage")
_CONFIRMATIONS: Final = (b"subscribe", b"ssubscribe")
_ENDS: Final = (b"unsubscribe", b"sunsubscribe")


class Channel:
    """Who listens to a channel in this process."""

    __slots__ = ("confirmed", "listeners", "name")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.listeners: list[Listener] = []
        self.confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def confirm(self) -> None:
        """Now nothing is missed any more; what was said before this may have been."""
        if self.confirmed.done():
            self.tell(LOOK)
        else:
            self.confirmed.set_result(None)

    def fail(self, fault: BaseException) -> None:
        """Whoever wants to begin to listen learns that it is not possible now."""
        if not self.confirmed.done():
            self.confirmed.set_exception(fault)

    def tell(self, words: Words) -> None:
        for listener in tuple(self.listeners):
            listener(words)


class Line:
    """What `channels` holds is subscribed to whenever the line is up."""

    def __init__(self, node: Node, dial: Callable[[Node], AbstractConnection]) -> None:
        self.node = node
        self.channels: dict[bytes, Channel] = {}
        self.was_up = False
        self._dial = dial
        self._is_sharded = True
        self._is_up = False
        self._outbox: list[tuple[Word, ...]] = []
        self._has_mail = asyncio.Event()
        self._to_leave: set[bytes] = set()
        self._leaving: asyncio.TimerHandle | None = None
        self._heard_s = 0.0

    def add(self, channel: Channel) -> None:
        self.channels[channel.name] = channel
        self._to_leave.discard(channel.name)
        self._send("SUBSCRIBE", channel.name)

    def remove(self, channel: Channel) -> None:
        del self.channels[channel.name]
        self._to_leave.add(channel.name)
        if self._leaving is None:
            loop = asyncio.get_running_loop()
            self._leaving = loop.call_later(LEAVE_AFTER_S, self._leave)

    async def talk(self) -> None:
        """Connect, subscribe to everything, and hear until the connection breaks; then raise."""
        connection = self._dial(self.node)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                self._is_sharded = await _has_shards(connection)
            self._is_up = True
            self._outbox.clear()
            self._to_leave.clear()
            for name in self.channels:
                self._send("SUBSCRIBE", name)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._write(connection))
                group.create_task(self._read(connection))
                group.create_task(self._ping())
        finally:
            self._is_up = False
            if self._leaving is not None:
                self._leaving.cancel()
                self._leaving = None
            await connection.disconnect(nowait=True)

    def _send(self, verb: str, name: bytes) -> None:
        if not self._is_up:  # Once it is, it subscribes to everything.
            return
        self._outbox.append((f"S{verb}" if self._is_sharded else verb, name))
        self._has_mail.set()

    def _leave(self) -> None:
        self._leaving = None
        for name in self._to_leave:
            self._send("UNSUBSCRIBE", name)
        self._to_leave.clear()

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._has_mail.wait()
            commands = self._outbox[:_COMMANDS_AT_ONCE]
            del self._outbox[:_COMMANDS_AT_ONCE]
            if not self._outbox:
                self._has_mail.clear()
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await connection.send_packed_command(packed(commands), check_health=False)

    async def _read(self, connection: AbstractConnection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(_MESSAGES_AT_ONCE):
                self._hear(await connection.read_response(disconnect_on_error=False))
                self._heard_s = loop.time()
            await asyncio.sleep(0)  # Reading what has already come does not let others run.

    async def _ping(self) -> None:
        """Notice a server that keeps silent without hanging up."""
        loop = asyncio.get_running_loop()
        self._heard_s = loop.time()
        while True:
            await asyncio.sleep(PING_EVERY_S)
            if loop.time() - self._heard_s > SILENCE_MAX_S:
                raise ConnectionLost(f"it said nothing for {SILENCE_MAX_S:g} s")
            self._outbox.append(("PING",))
            self._has_mail.set()

    def _hear(self, reply: Any) -> None:
        self.was_up = True
        if not isinstance(reply, list):  # The answer to a ping.
            return
        kind, name = reply[0], reply[1]
        channel = self.channels.get(name)
        if channel is None:
            return
        if kind in _MESSAGES:
            channel.tell(_words(reply[2]))
        elif kind in _CONFIRMATIONS:
            channel.confirm()
        elif kind in _ENDS:  # The slot has moved away; or it was left and asked for again.
            self._send("SUBSCRIBE", name)


async def _has_shards(connection: AbstractConnection) -> bool:
    """Whether the scripts' own attempt succeeds here. A server without the slot has them too."""
    await connection.send_command("SPUBLISH", "{hw:}:anyone", "")
    try:
        await connection.read_response(disconnect_on_error=False)
    except (MovedError, ClusterError):
        return True
    except ResponseError:
        return False
    return True


def _words(text: bytes) -> Words:
    """What was said; something that we did not say is a reason to look."""
    try:
        words = json.loads(text)
    except ValueError:
        return LOOK
    return words if isinstance(words, list) and words else LOOK
