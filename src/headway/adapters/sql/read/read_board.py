"""Read lanes, open interrupts, schedules and metrics."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.read.keyset import iterate_in_chunks, keyset_condition
from headway.adapters.sql.tables import instances, interrupts, lanes, runs, schedules, stream
from headway.core.batch_state import Interrupt
from headway.core.command.run.interrupt import WITHDRAWN_GENERATION
from headway.core.ids import Instant, LaneName, RunId
from headway.core.lane_row import LaneRow
from headway.core.run.run import QueueRank
from headway.core.run.status import RunStatus
from headway.core.schedule import SavedSchedule
from headway.ports.board_reader import ListedInterrupt, MetricsSnapshot
from headway.ports.run_reader import LaneCounts

HAS_NOT_STARTED: Final = runs.c.queue_rank.in_([int(QueueRank.READY), int(QueueRank.BEHIND)])
# Counted per lane, so that each count uses an index that contains active runs only.
_HELD_COUNT: Final = sa.select(sa.func.count()).where(runs.c.slot == lanes.c.name)
_QUEUED_COUNT: Final = sa.select(sa.func.count()).where(
    runs.c.lane == lanes.c.name, HAS_NOT_STARTED
)
# Not counted per lane, because no index supports that. Only heads run, so the index of heads is
# used, with the same comparison as in `read_runs.py`.
_WAITING_COUNTS: Final = (
    sa.select(runs.c.lane, sa.func.count().label("count"))
    .where(
        runs.c.head_key > sa.literal_column("''"),
        runs.c.status == RunStatus.RUNNING.value,
        runs.c.slot.is_(None),
    )
    .group_by(runs.c.lane)
    .subquery()
)
LANES: Final = (
    sa.select(
        *lanes.c,
        _HELD_COUNT.correlate(lanes).scalar_subquery(),
        _QUEUED_COUNT.correlate(lanes).scalar_subquery(),
        sa.func.coalesce(_WAITING_COUNTS.c.count, 0),
    )
    .select_from(lanes.outerjoin(_WAITING_COUNTS, _WAITING_COUNTS.c.lane == lanes.c.name))
    .order_by(lanes.c.name)
)
IS_OPEN: Final = (
    (interrupts.c.generation != WITHDRAWN_GENERATION)
    & interrupts.c.answer.is_(None)
    & (runs.c.status == RunStatus.RUNNING.value)
)
"""The condition that an interrupt can be answered. Its run need not be executing now."""
_INTERRUPTS_AND_RUNS: Final = interrupts.join(runs, runs.c.id == interrupts.c.run_id)
_INTERRUPT_ORDER: Final = (interrupts.c.asked_at, interrupts.c.run_id, interrupts.c.call_id)
_INTERRUPTS: Final = (
    sa.select(*interrupts.c, runs.c.key, runs.c.job, runs.c.lane)
    .select_from(_INTERRUPTS_AND_RUNS)
    .where(IS_OPEN)
    .order_by(*_INTERRUPT_ORDER)
)


class SqlBoardReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lane(self, name: LaneName) -> LaneCounts | None:
        rows = await self._database.fetch_rows(LANES.where(lanes.c.name == name))
        return to_lane_view(rows[0]) if rows else None

    def interrupts(
        self,
        *,
        limit: int,
        run_id: RunId | None = None,
        after: tuple[Instant, RunId, str] | None = None,
    ) -> AsyncIterator[ListedInterrupt]:
        async def read(
            count: int, after: tuple[Instant, RunId, str] | None
        ) -> Sequence[ListedInterrupt]:
            query = _INTERRUPTS.limit(count)
            if run_id is not None:
                query = query.where(interrupts.c.run_id == run_id)
            if after is not None:
                query = query.where(keyset_condition(_INTERRUPT_ORDER, after))
            rows = await self._database.fetch_rows(query)
            return [
                ListedInterrupt(Interrupt._make(interrupt), key, job, lane)
                for *interrupt, key, job, lane in map(tuple, rows)
            ]

        return iterate_in_chunks(read, lambda listed: listed.cursor, limit=limit, after=after)

    async def schedules(self) -> Sequence[SavedSchedule]:
        rows = await self._database.fetch_rows(sa.select(*schedules.c).order_by(schedules.c.name))
        return [SavedSchedule._make(row) for row in rows]

    async def metrics(self) -> MetricsSnapshot:
        return await self._database.read_with_retry(self._read_metrics, in_snapshot=True)

    async def _read_metrics(self, connection: AsyncConnection) -> MetricsSnapshot:
        async def count(query: sa.Select[Any]) -> int:
            return int(await connection.scalar(query) or 0)

        now = self._database.clock.now_for_query()
        is_live = (instances.c.is_dead == 0) & (instances.c.lease_expires_at > now)
        return MetricsSnapshot(
            lanes=[to_lane_view(row) for row in await connection.execute(LANES)],
            interrupt_count=await count(
                sa.select(sa.func.count()).select_from(_INTERRUPTS_AND_RUNS).where(IS_OPEN)
            ),
            instance_count=await count(sa.select(sa.func.count()).where(is_live)),
            last_seq=await count(sa.select(stream.c.seq)),
        )


def to_lane_view(row: Iterable[Any]) -> LaneCounts:
    *lane, held_count, queued_count, waiting_count = row
    return LaneCounts(LaneRow(*lane), held_count, queued_count, waiting_count)
