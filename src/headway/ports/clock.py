"""What time it is, for whoever looks for what is due; the database's own clock decides."""

from typing import Protocol

from headway.core.ids import Instant


class Clock(Protocol):
    def now(self) -> Instant: ...
