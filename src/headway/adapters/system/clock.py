"""This machine's clock."""

import time

from headway.core.ids import Instant


class SystemClock:
    def now(self) -> Instant:
        return Instant(time.time_ns() // 1_000)
