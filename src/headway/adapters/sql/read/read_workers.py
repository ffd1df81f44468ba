"""Read the registered workers."""

import json
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.tables import workers
from headway.core.ids import Instant
from headway.core.worker.saved_worker import LiveWorker, SavedWorker

WORKER_COUNT_MAX: Final = 10_000
_LIVE_WORKERS: Final = (
    sa.select(*workers.c)
    .where(workers.c.heartbeat_at >= sa.bindparam("since"))
    .order_by(workers.c.heartbeat_at.desc())
    .limit(WORKER_COUNT_MAX)
)
_IS_STALE: Final = workers.c.heartbeat_at < sa.bindparam("before")
_STALE_IDS: Final = sa.select(workers.c.id).where(_IS_STALE).order_by(workers.c.heartbeat_at)
_STALE_COUNT: Final = sa.select(sa.func.count()).select_from(workers).where(_IS_STALE)


class SqlWorkerReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def workers(self, *, heartbeat_since: Instant) -> Sequence[LiveWorker]:
        rows = await self._database.fetch_rows(_LIVE_WORKERS, {"since": heartbeat_since})
        return sorted(map(_to_live_worker, rows), key=lambda worker: worker.id)

    async def stale_workers(self, *, heartbeat_before: Instant, limit: int) -> Sequence[str]:
        rows = await self._database.fetch_rows(
            _STALE_IDS.limit(limit), {"before": heartbeat_before}
        )
        return [worker_id for (worker_id,) in rows]

    async def count_stale_workers(self, *, heartbeat_before: Instant) -> int:
        ((count,),) = await self._database.fetch_rows(_STALE_COUNT, {"before": heartbeat_before})
        return int(count)


def _to_live_worker(row: Sequence[Any]) -> LiveWorker:
    saved = SavedWorker._make(row)
    services = frozenset(json.loads(saved.services))
    return LiveWorker(saved.id, saved.url, services, saved.load, saved.heartbeat_at)
