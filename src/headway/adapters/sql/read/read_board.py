"""Reading what people look at: lanes, open questions, schedules, and the figures of it all."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from headway.adapters.sql.connect.database import Database
from headway.adapters.sql.read.keyset import beyond, few_at_once
from headway.adapters.sql.tables import instances, lanes, questions, runs, schedules, stream
from headway.core.batch_state import Question
from headway.core.command.run.interrupt import WITHDRAWN
from headway.core.ids import Instant, LaneName, RunId
from headway.core.lane_row import Lane
from headway.core.run.run import QueueRank
from headway.core.run.status import RunStatus
from headway.core.schedule import SavedSchedule
from headway.ports.board_reader import Figures, Interrupt
from headway.ports.run_reader import LaneView

HAS_NOT_STARTED: Final = runs.c.queue_rank.in_([int(QueueRank.READY), int(QueueRank.BEHIND)])
# Asked lane by lane, so that each count is read from an index that holds live runs only.
_HELD: Final = sa.select(sa.func.count()).where(runs.c.slot == lanes.c.name)
_QUEUED: Final = sa.select(sa.func.count()).where(runs.c.lane == lanes.c.name, HAS_NOT_STARTED)
# Not lane by lane: no index has them so. Only heads run, and the index of heads serves, compared as
# the runs' own reader does.
_WAITING: Final = (
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
        _HELD.correlate(lanes).scalar_subquery(),
        _QUEUED.correlate(lanes).scalar_subquery(),
        sa.func.coalesce(_WAITING.c.count, 0),
    )
    .select_from(lanes.outerjoin(_WAITING, _WAITING.c.lane == lanes.c.name))
    .order_by(lanes.c.name)
)
IS_OPEN: Final = (
    (questions.c.generation != WITHDRAWN)
    & questions.c.answer.is_(None)
    & (runs.c.status == RunStatus.RUNNING.value)
)
"""A question that people may answer, also while no process executes its run."""
_ASKED: Final = questions.join(runs, runs.c.id == questions.c.run_id)
_ASKED_ORDER: Final = (questions.c.asked_at, questions.c.run_id, questions.c.call_id)
_INTERRUPTS: Final = (
    sa.select(*questions.c, runs.c.key, runs.c.job, runs.c.lane)
    .select_from(_ASKED)
    .where(IS_OPEN)
    .order_by(*_ASKED_ORDER)
)


class SqlBoardReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def lane(self, name: LaneName) -> LaneView | None:
        rows = await self._database.rows(LANES.where(lanes.c.name == name))
        return to_lane_view(rows[0]) if rows else None

    def interrupts(
        self,
        *,
        limit: int,
        run_id: RunId | None = None,
        after: tuple[Instant, RunId, str] | None = None,
    ) -> AsyncIterator[Interrupt]:
        async def read(count: int, after: tuple[Instant, RunId, str] | None) -> Sequence[Interrupt]:
            query = _INTERRUPTS.limit(count)
            if run_id is not None:
                query = query.where(questions.c.run_id == run_id)
            if after is not None:
                query = query.where(beyond(_ASKED_ORDER, after))
            rows = await self._database.rows(query)
            return [
                Interrupt(Question._make(asked), key, job, lane)
                for *asked, key, job, lane in map(tuple, rows)
            ]

        return few_at_once(read, lambda one: one.place, limit=limit, after=after)

    async def schedules(self) -> Sequence[SavedSchedule]:
        rows = await self._database.rows(sa.select(*schedules.c).order_by(schedules.c.name))
        return [SavedSchedule._make(row) for row in rows]

    async def figures(self) -> Figures:
        return await self._database.with_retry(self._figures, at_one_instant=True)

    async def _figures(self, connection: AsyncConnection) -> Figures:
        async def count(query: sa.Select[Any]) -> int:
            return int(await connection.scalar(query) or 0)

        now = self._database.clock.in_query()
        is_live = (instances.c.is_dead == 0) & (instances.c.lease_expires_at > now)
        return Figures(
            lanes=[to_lane_view(row) for row in await connection.execute(LANES)],
            interrupt_count=await count(
                sa.select(sa.func.count()).select_from(_ASKED).where(IS_OPEN)
            ),
            instance_count=await count(sa.select(sa.func.count()).where(is_live)),
            last_seq=await count(sa.select(stream.c.seq)),
        )


def to_lane_view(row: Iterable[Any]) -> LaneView:
    *lane, held_count, queued_count, waiting_count = row
    return LaneView(Lane(*lane), held_count, queued_count, waiting_count)
