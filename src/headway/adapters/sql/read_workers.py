"""Reading the registry of workers."""

import json
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.database import Database
from headway.adapters.sql.tables import workers
from headway.core.worker.worker import LiveWorker, SavedWorker

WORKER_COUNT_MAX: Final = 10_000
_ALL: Final = sa.select(*workers.c).order_by(workers.c.id).limit(WORKER_COUNT_MAX)


class SqlWorkerReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def workers(self) -> Sequence[LiveWorker]:
        async def read(connection: AsyncConnection) -> Sequence[LiveWorker]:
            return [_live(row) for row in await connection.execute(_ALL)]

        return await self._database.with_retry(read)


def _live(row: Sequence[Any]) -> LiveWorker:
    saved = SavedWorker._make(row)
    services = frozenset(json.loads(saved.services))
    return LiveWorker(saved.id, saved.url, services, saved.load, saved.heartbeat_at)
