"""Read the list of stored files."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.tables import run_files, runs
from headway.core.ids import Key, RunId
from headway.core.stored_file import StoredFile


class SqlFileReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def ended_runs(self, run_ids: Sequence[RunId]) -> Sequence[RunId]:
        has_ended = runs.c.id.in_(run_ids) & runs.c.ended_at.is_not(None)
        rows = await self._database.fetch_rows(sa.select(runs.c.id).where(has_ended))
        return [RunId(run_id) for (run_id,) in rows]

    async def files_of_run(
        self, run_id: RunId, *, data_id: str, limit: int
    ) -> Sequence[StoredFile]:
        return await self._fetch_files(
            sa.select(*run_files.c)
            .where(run_files.c.run_id == run_id, run_files.c.data_id == data_id)
            .limit(limit)
        )

    async def list_run_files(
        self, run_id: RunId, *, limit: int, after: str = ""
    ) -> Sequence[StoredFile]:
        return await self._fetch_files(
            sa.select(*run_files.c)
            .where(run_files.c.run_id == run_id, run_files.c.path > after)
            .order_by(run_files.c.path)
            .limit(limit)
        )

    async def files_by_part(
        self, run_id: RunId, *, data_id: str, parts: Sequence[str]
    ) -> Sequence[StoredFile]:
        return await self._fetch_files(
            sa.select(*run_files.c).where(
                run_files.c.run_id == run_id,
                run_files.c.data_id == data_id,
                run_files.c.part.in_(parts),
            )
        )

    async def files_of_key(
        self, key: Key, *, data_id: str, limit: int, after: str = ""
    ) -> Sequence[StoredFile]:
        return await self._fetch_files(
            sa.select(*run_files.c)
            .where(
                run_files.c.key == key,
                run_files.c.data_id == data_id,
                run_files.c.path > after,
            )
            .order_by(run_files.c.path)
            .limit(limit)
        )

    async def _fetch_files(self, query: sa.Select[Any]) -> Sequence[StoredFile]:
        return [StoredFile._make(row) for row in await self._database.fetch_rows(query)]
