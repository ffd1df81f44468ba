"""The clock of this host."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager

from headway.core.ids import Instant


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000)

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)
