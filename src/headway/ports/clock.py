"""What time it is, and how to let it pass. What is due, the database's own clock decides."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from headway.core.ids import Instant


class Clock(Protocol):
    def now(self) -> Instant: ...

    def monotonic_s(self) -> float:
        """Seconds since whenever; they never go back, and only their difference says anything."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """As `asyncio.timeout`: what is inside has so long, and then TimeoutError is raised."""
        ...
