"""Opens the runtime store, in Redis or in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headway.runtime.memory_runtime_store import MemoryRuntimeStore
from headway.runtime.runtime_store import RuntimeLimits, RuntimeStore


@asynccontextmanager
async def open_runtime_store(
    redis_url: str | None, limits: RuntimeLimits | None = None
) -> AsyncIterator[RuntimeStore]:
    """Open the runtime store in Redis, or in the memory of this process if there is no URL.

    The store connects on first use, so that the program starts even if Redis is unavailable. When
    the `async with` block ends, waiting callers receive SHUTDOWN_ANSWER. Raise ConfigurationError
    if the URL is invalid, or the extra `headway[redis]` is not installed.
    """
    if redis_url is None:
        memory_store = MemoryRuntimeStore(limits)
        try:
            yield memory_store
        finally:
            await memory_store.shutdown_cleanup()
        return
    # Imported here, because the Redis client is slow to import and may not be installed.
    from headway.runtime.redis.address import parse_redis_url  # noqa: PLC0415

    address = parse_redis_url(redis_url)
    from headway.runtime.redis.redis_runtime_store import RedisRuntimeStore  # noqa: PLC0415

    redis_store = RedisRuntimeStore(address, limits)
    try:
        yield redis_store
    finally:
        await redis_store.close()
