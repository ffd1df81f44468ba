"""A store that is opened once and emptied for each example, and all that is in it."""

import asyncio
import json
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.sql.tables import (
    events,
    inbox,
    instances,
    lanes,
    remembered,
    runs,
    saved_keys,
    schedules,
    stream,
)
from headway.core.ids import SECOND_US
from headway.core.lane_row import DEFAULT_LIMITS, LaneRow
from headway.testing import FakeClock
from tests.property.model import Model
from tests.property.oracle import Oracle
from tests.property.timetable import PERIODS_S

T = TypeVar("T")
PERIOD_S: Final = max(PERIODS_S.values())
BEFORE_S: Final = 6
TABLES: Final = (runs, events, inbox, instances, lanes, remembered, saved_keys, schedules)
_DEFAULT_LANES: Final = {name: LaneRow(name, limit) for name, limit in DEFAULT_LIMITS.items()}


class Opened:
    """A store in plain code: it brings a loop and a clock of its own."""

    def __init__(self, runner: asyncio.Runner, store: SqlStore, clock: FakeClock) -> None:
        self._runner = runner
        self.store = store
        self.clock = clock

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def start_over(self) -> Oracle:
        """Empty the store, and give an oracle that knows as much. The stream goes on counting:
        a connection would be refused by a node whose seq has gone back. So does the clock, to a
        moment before a slot of every schedule, or an example would not be the same twice."""
        self.clock.advance(PERIOD_S - BEFORE_S - self.clock() / SECOND_US % PERIOD_S + PERIOD_S)
        oracle = Oracle(now=self.clock(), seq=self.run(self._empty()))
        oracle.lanes.update(_DEFAULT_LANES)
        return oracle

    async def _empty(self) -> int:
        async with self.store._database.open_write_session() as connection:
            for table in TABLES:
                await connection.execute(sa.delete(table))
            await connection.execute(sa.update(stream).values(pruned_seq=stream.c.seq))
            rows = [lane._asdict() for lane in _DEFAULT_LANES.values()]
            await connection.execute(sa.insert(lanes), rows)
            seq = await connection.scalar(sa.select(stream.c.seq))
            await connection.commit()
        assert seq is not None
        return int(seq)

    async def read_all(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table that decides anything, in the order of its address."""
        async with self.store._database.open_snapshot() as connection:
            found = {}
            for table in (*TABLES, stream):
                rows = await connection.execute(sa.select(table).order_by(*table.primary_key))
                found[table.name] = [dict(row) for row in rows.mappings()]
            return found


@contextmanager
def opened(urls: Sequence[str]) -> Iterator[Opened]:
    clock = FakeClock()
    with asyncio.Runner() as runner:
        store = runner.run(open_store(urls, now=clock))
        try:
            yield Opened(runner, store, clock)
        finally:
            runner.run(store.close())


def expected(model: Model) -> dict[str, list[dict[str, Any]]]:
    """What `read_all` must find, but for `revision` of runs, which only has to grow."""
    return {
        "runs": [model.row(run) for run in model.runs],
        "events": model.events,
        "inbox": [item._asdict() for item in sorted(model.inbox)],
        "instances": [one._asdict() for _, one in sorted(model.instances.items())],
        "lanes": [lane._asdict() for _, lane in sorted(model.lanes.items())],
        "remembered": [
            {"idempotency_key": key, "run_id": run_id, "at": at}
            for key, (run_id, _, at) in sorted(model.remembered.items())
        ],
        "saved_keys": [saved._asdict() for _, saved in sorted(model.keys.items())],
        "schedules": [saved._asdict() for _, saved in sorted(model.schedules.items())],
        "stream": [{"seq": model.seq, "pruned_seq": model.pruned_seq}],
    }


def difference(told: dict[str, list[dict[str, Any]]], found: dict[str, Any]) -> list[str]:
    """Each place where the store is not as the oracle says."""
    lines = []
    for table, rows in told.items():
        if len(rows) != len(found[table]):
            lines.append(f"{table}: {len(rows)} rows told, {len(found[table])} found")
        for should, row in zip(rows, found[table], strict=False):
            for name, value in should.items():
                if not _agree(value, row[name]):
                    lines.append(f"{table} {_address(should)} {name}: {value!r}, not {row[name]!r}")
    return lines


def _agree(told: Any, found: Any) -> bool:
    """A dict is a document of the core's own making, whatever its spelling."""
    return bool(told == (json.loads(found) if isinstance(told, dict) else found))


def _address(row: dict[str, Any]) -> Any:
    return next(iter(row.values()))
