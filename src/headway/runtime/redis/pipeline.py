"""Sends calls to one server in batches. A call in a batch costs a sixth of a single call.

redis-py does not collect the calls of concurrent tasks. With 100 callers, redis-py's client reaches
18 % of the rate of these batches, and redis-py's `Pipeline` behind the same queue reaches 69 %
(docs/adr/0019).
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import RedisClusterException, RedisError, ResponseError
from redis.exceptions import TimeoutError as DriverTimeout

from headway.core.errors import StoreClosed

CALL_TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 3.0
BATCH_CALL_COUNT_MAX: Final = 250
BATCH_COUNT_MAX: Final = 4
"""The maximum number of batches in flight, each over its own connection."""
WAITING_COUNT_MAX: Final = 100_000
REDIS_ERRORS: Final = (RedisError, RedisClusterException, OSError, TimeoutError)

CommandArgument = str | bytes | int
_Call = tuple[tuple[CommandArgument, ...], asyncio.Future[Any]]


class TooManyCalls(RedisError):
    """The number of waiting calls has reached its limit."""


class Pipeline:
    def __init__(self, connection_class: type[AbstractConnection], **arguments: Any) -> None:
        self._pool = ConnectionPool(
            connection_class=connection_class, max_connections=BATCH_COUNT_MAX + 1, **arguments
        )
        self._waiting: deque[_Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def call(self, *command: CommandArgument) -> Any:
        """Send a command and return its reply, or raise the error.

        A call that is canceled before it is sent is never sent. A call waits in the queue while the
        server answers earlier calls, and then waits up to `CALL_TIMEOUT_S` for its reply.
        """
        if self._is_closed:
            raise StoreClosed
        if len(self._waiting) >= WAITING_COUNT_MAX:
            raise TooManyCalls(f"{WAITING_COUNT_MAX:,} calls are already waiting for the server")
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, reply))
        if len(self._tasks) < BATCH_COUNT_MAX:
            task = asyncio.create_task(self._send_batches())
            self._tasks.add(task)
        return await reply

    async def close(self) -> None:
        """Close all connections. Calls that still wait for a reply raise StoreClosed."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _resolve_calls(self._next_batch(count_max=WAITING_COUNT_MAX), StoreClosed())
        await self._pool.aclose()

    async def _send_batches(self) -> None:
        try:
            while batch := self._next_batch():
                try:
                    async with asyncio.timeout(CALL_TIMEOUT_S):
                        replies = await self._send([command for command, _ in batch])
                except (TimeoutError, DriverTimeout) as error:
                    # The server would not answer the queued calls either: fail them at once.
                    _resolve_calls(batch + self._next_batch(count_max=WAITING_COUNT_MAX), error)
                except REDIS_ERRORS as error:
                    _resolve_calls(batch, error)
                except asyncio.CancelledError:
                    _resolve_calls(batch, StoreClosed())
                    raise
                else:
                    for call, reply in zip(batch, replies, strict=True):
                        _resolve_calls([call], reply)
        finally:
            # Remove the task in the same step that finds the queue empty. A done callback runs
            # later: a call made in between would count this task as a sender, and wait forever.
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)

    def _next_batch(self, count_max: int = BATCH_CALL_COUNT_MAX) -> list[_Call]:
        batch: list[_Call] = []
        while self._waiting and len(batch) < count_max:
            call = self._waiting.popleft()
            if not call[1].done():
                batch.append(call)
        return batch

    async def _send(self, commands: list[tuple[CommandArgument, ...]]) -> list[Any]:
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:  # If this is interrupted, the driver closes the connection.
            await connection.send_packed_command(encode_commands(commands), check_health=False)
            return [await _read_reply(connection) for _ in commands]
        finally:
            await self._pool.release(connection)


async def _read_reply(connection: AbstractConnection) -> Any:
    """Return the server's reply. An error reply is returned, not raised."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def encode_commands(commands: Iterable[tuple[CommandArgument, ...]]) -> bytes:
    """Encode commands in the Redis protocol (RESP)."""
    return b"".join(pack_command(command) for command in commands)  # type: ignore[arg-type]


def _resolve_calls(calls: list[_Call], reply: Any) -> None:
    for _, future in calls:
        if future.done():
            continue
        if isinstance(reply, Exception):
            future.set_exception(reply)
        else:
            future.set_result(reply)
