"""Reading the registry of workers."""

import json
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.tables import workers
from headway.core.ids import Instant
from headway.core.worker.saved_worker import LiveWorker, SavedWorker

WORKER_COUNT_MAX: Final = 10_000
_HEARD: Final = (
    sa.select(*workers.c)
    .where(workers.c.heartbeat_at >= sa.bindparam("since"))
    .order_by(workers.c.heartbeat_at.desc())
    .limit(WORKER_COUNT_MAX)
)
_SILENT: Final = workers.c.heartbeat_at < sa.bindparam("before")
_OLDEST: Final = sa.select(workers.c.id).where(_SILENT).order_by(workers.c.heartbeat_at)
_COUNT: Final = sa.select(sa.func.count()).select_from(workers).where(_SILENT)


class SqlWorkerReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def workers(self, *, heard_since: Instant) -> Sequence[LiveWorker]:
        rows = await self._database.rows(_HEARD, {"since": heard_since})
        return sorted(map(_live, rows), key=lambda one: one.id)

    async def silent_workers(self, *, heard_before: Instant, limit: int) -> Sequence[str]:
        rows = await self._database.rows(_OLDEST.limit(limit), {"before": heard_before})
        return [worker_id for (worker_id,) in rows]

    async def count_silent_workers(self, *, heard_before: Instant) -> int:
        ((count,),) = await self._database.rows(_COUNT, {"before": heard_before})
        return int(count)


def _live(row: Sequence[Any]) -> LiveWorker:
    saved = SavedWorker._make(row)
    services = frozenset(json.loads(saved.services))
    return LiveWorker(saved.id, saved.url, services, saved.load, saved.heartbeat_at)
