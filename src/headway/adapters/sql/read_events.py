"""Reading the event stream."""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.database import Database
from headway.adapters.sql.tables import events, stream
from headway.core.ids import RunId
from headway.core.run.events import Event
from headway.ports.event_reader import Page


class SqlEventReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def events(self, *, after_seq: int, limit: int, run_id: RunId | None = None) -> Page:
        query = sa.select(*events.c).where(events.c.seq > after_seq).limit(limit)
        if run_id is None:
            query = query.order_by(events.c.seq)
        else:  # The same order, and found by the index of the run's own events.
            query = query.where(events.c.run_id == run_id).order_by(events.c.run_seq)

        async def read(connection: AsyncConnection) -> Page:
            found = await connection.execute(sa.select(stream.c.seq, stream.c.pruned_seq))
            last_seq, pruned_seq = found.one()
            rows = await connection.execute(query)
            return Page([Event(*row) for row in rows], last_seq, pruned_seq)

        return await self._database.with_retry(read, at_one_instant=True)
