"""The clock of this process. The database's own clock decides what is due."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from headway.core.ids import Instant


class Clock(Protocol):
    def now(self) -> Instant: ...

    def monotonic_s(self) -> float:
        """Return seconds that never decrease. Only the difference of two values has a meaning."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Return a context that raises TimeoutError after `seconds`, like `asyncio.timeout`."""
        ...
