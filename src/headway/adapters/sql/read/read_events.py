"""Read the event stream."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.tables import events, stream
from headway.core.ids import Instant, RunId
from headway.core.run.events import Event
from headway.ports.event_reader import EventSlice

FIRST_COUNT: Final = 16
SHORT_LENGTH_MAX: Final = 512
"""The maximum length of payloads that are read together with their rows.

Longer payloads are read afterwards, when it is known how many of them fit.
"""
STREAM_COLUMNS: Final = (stream.c.seq, stream.c.pruned_seq, stream.c.epoch)


class SqlEventReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def events(
        self,
        *,
        after_seq: int,
        limit: int,
        length_max: int | None = None,
        run_id: RunId | None = None,
    ) -> EventSlice:
        async def page(connection: AsyncConnection) -> EventSlice:
            stream_row = await connection.execute(sa.select(*STREAM_COLUMNS))
            last_seq, pruned_seq, epoch = stream_row.one()
            if length_max is None:
                query = _select_after(sa.select(*events.c), after_seq, limit, run_id)
                page_events = [Event(*row) for row in await connection.execute(query)]
                has_more = len(page_events) == limit
            else:
                page_events, has_more = await self._read_bounded(
                    connection, after_seq, limit, length_max, run_id
                )
            after_at = await read_event_time(connection, after_seq)
            return EventSlice(page_events, last_seq, pruned_seq, has_more, after_at, epoch)

        return await self._database.read_with_retry(page, in_snapshot=True)

    async def event_times(self, *, after_seq: int, limit: int) -> Sequence[tuple[int, Instant]]:
        query = _select_after(sa.select(events.c.seq, events.c.at), after_seq, limit, None)
        return [(row.seq, row.at) for row in await self._database.fetch_rows(query)]

    async def _read_bounded(
        self,
        connection: AsyncConnection,
        after_seq: int,
        limit: int,
        length_max: int,
        run_id: RunId | None,
    ) -> tuple[list[Event], bool]:
        """Read events up to a total payload length of `length_max`, but at least one event.

        Lengths are in bytes, or in characters on SQLite. Long payloads that do not fit are never
        loaded. The returned flag is True if there may be more events.
        """
        rows: list[Any] = []
        length = 0
        for count in (min(FIRST_COUNT, limit), max(0, limit - FIRST_COUNT)):
            # Read a few first. If they are long, no more are needed.
            query = _select_after(self._select_with_lengths(), after_seq, count, run_id)
            page = (await connection.execute(query)).all() if count else []
            for row in page:
                length += row.length
                if rows and length > length_max:
                    return await _load_payloads(connection, rows), True
                rows.append(row)
                after_seq = row.seq
            if len(page) < count:
                return await _load_payloads(connection, rows), False
        return await _load_payloads(connection, rows), True

    def _select_with_lengths(self) -> sa.Select[Any]:
        """Return a query for events and their payload lengths. It returns long payloads as NULL."""
        is_sqlite = self._database.driver == "sqlite"
        length_of = sa.func.length if is_sqlite else sa.func.octet_length
        length = length_of(events.c.payload)
        payload = sa.case((length <= SHORT_LENGTH_MAX, events.c.payload), else_=None).label(
            "payload"
        )
        columns = [payload if c is events.c.payload else c for c in events.c]
        return sa.select(*columns, length.label("length"))


async def read_event_time(connection: AsyncConnection, seq: int) -> Instant | None:
    """Return when the event `seq` was written, or None if there is no such event."""
    return await connection.scalar(sa.select(events.c.at).where(events.c.seq == seq))


def _select_after(
    query: sa.Select[Any], seq: int, limit: int, run_id: RunId | None
) -> sa.Select[Any]:
    query = query.where(events.c.seq > seq).limit(limit)
    if run_id is None:
        return query.order_by(events.c.seq)
    # The same order, but with the index of the run's own events.
    return query.where(events.c.run_id == run_id).order_by(events.c.run_seq)


async def _load_payloads(connection: AsyncConnection, rows: Sequence[Any]) -> list[Event]:
    """Return the events of these rows, after loading the long payloads that the rows lack."""
    long_seqs = [row.seq for row in rows if row.payload is None]
    payloads: dict[int, str] = {}
    if long_seqs:
        query = sa.select(events.c.seq, events.c.payload).where(events.c.seq.in_(long_seqs))
        payloads = {row.seq: row.payload for row in await connection.execute(query)}
    short = [Event(*event) for *event, _length in rows]
    return [event._replace(payload=payloads.get(event.seq, event.payload)) for event in short]
