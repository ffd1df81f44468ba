"""The way to one server: calls that wait together are sent together, and cost a sixth each."""

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
"""On their way at the same time, each over a connection of its own."""
WAITING_COUNT_MAX: Final = 100_000
REDIS_ERRORS: Final = (RedisError, RedisClusterException, OSError, TimeoutError)

CommandArgument = str | bytes | int
_Call = tuple[tuple[CommandArgument, ...], asyncio.Future[Any]]


class TooManyCalls(RedisError):
    """More calls wait than the limit allows."""


class Pipeline:
    def __init__(self, kind: type[AbstractConnection], **arguments: Any) -> None:
        self._pool = ConnectionPool(
            connection_class=kind, max_connections=BATCH_COUNT_MAX + 1, **arguments
        )
        self._waiting: deque[_Call] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._script_locks: dict[str, asyncio.Lock] = {}
        self._is_closed = False

    async def call(self, *words: CommandArgument) -> Any:
        """The reply, or the fault; one that is cancelled before it was sent is not sent.

        It waits for its turn for as long as the server answers others, and then `CALL_TIMEOUT_S`.
        """
        if self._is_closed:
            raise StoreClosed
        if len(self._waiting) >= WAITING_COUNT_MAX:
            raise TooManyCalls(f"{WAITING_COUNT_MAX:,} calls wait for it already")
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((words, reply))
        if len(self._tasks) < BATCH_COUNT_MAX:
            task = asyncio.create_task(self._send_batches())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await reply

    async def load_script(self, script: str) -> None:
        """Teach the server a script; those who want it at the same time share one lesson."""
        lesson = self._script_locks.get(script)
        if lesson is None:
            lesson = self._script_locks[script] = asyncio.Lock()
        if lesson.locked():
            async with lesson:
                return
        async with lesson:
            await self.call("SCRIPT", "LOAD", script)

    async def close(self) -> None:
        """Whoever still waits for a reply gets StoreClosed."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        _resolve_calls(self._next_batch(count_max=WAITING_COUNT_MAX), StoreClosed())
        await self._pool.aclose()

    async def _send_batches(self) -> None:
        while batch := self._next_batch():
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    replies = await self._send([words for words, _ in batch])
            except (TimeoutError, DriverTimeout) as fault:
                # Nor would it answer those who wait for their turn.
                _resolve_calls(batch + self._next_batch(count_max=WAITING_COUNT_MAX), fault)
            except REDIS_ERRORS as fault:
                _resolve_calls(batch, fault)
            except asyncio.CancelledError:
                _resolve_calls(batch, StoreClosed())
                raise
            else:
                for call, reply in zip(batch, replies, strict=True):
                    _resolve_calls([call], reply)

    def _next_batch(self, count_max: int = BATCH_CALL_COUNT_MAX) -> list[_Call]:
        batch: list[_Call] = []
        while self._waiting and len(batch) < count_max:
            call = self._waiting.popleft()
            if not call[1].done():
                batch.append(call)
        return batch

    async def _send(self, calls: list[tuple[CommandArgument, ...]]) -> list[Any]:
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        try:  # A connection that is left in the middle of this is closed by the driver.
            await connection.send_packed_command(encode_commands(calls), check_health=False)
            return [await _read_reply(connection) for _ in calls]
        finally:
            await self._pool.release(connection)


async def _read_reply(connection: AbstractConnection) -> Any:
    """What the server says, also when it refuses."""
    try:
        return await connection.read_response()
    except ResponseError as refusal:
        return refusal


def encode_commands(calls: Iterable[tuple[CommandArgument, ...]]) -> bytes:
    """Calls as the server reads them."""
    return b"".join(pack_command(words) for words in calls)  # type: ignore[arg-type]  # Any length.


def _resolve_calls(calls: list[_Call], reply: Any) -> None:
    for _, waiting in calls:
        if waiting.done():
            continue
        if isinstance(reply, Exception):
            waiting.set_exception(reply)
        else:
            waiting.set_result(reply)
