"""What time it is in the database: the one clock by which leases and deadlines are judged."""

import time
from collections.abc import Mapping
from typing import Final

from headway.core.ids import Instant

NOW_SQL: Final[Mapping[str, str]] = {
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
    "mysql": "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
}
"""By dialect. SQLite is no server: whoever opens the file has the same clock."""


def machine_now() -> Instant:
    return Instant(time.time_ns() // 1_000)
