"""A store that is opened once and emptied for each example, and a reader of its rows."""

import asyncio
import json
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from headway.adapters.sql.sql_store import SqlStore, open_store
from headway.adapters.sql.tables import (
    events,
    idempotency_keys,
    inbox,
    instances,
    lanes,
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
from tests.property.schedule_model import PERIODS_S

T = TypeVar("T")
PERIOD_S: Final = max(PERIODS_S.values())
BEFORE_S: Final = 6
TABLES: Final = (runs, events, inbox, instances, lanes, idempotency_keys, saved_keys, schedules)
_DEFAULT_LANES: Final = {name: LaneRow(name, limit) for name, limit in DEFAULT_LIMITS.items()}


class SyncStore:
    """A store for synchronous code, with its own event loop and clock."""

    def __init__(self, runner: asyncio.Runner, store: SqlStore, clock: FakeClock) -> None:
        self._runner = runner
        self.store = store
        self.clock = clock

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def start_over(self) -> Oracle:
        """Empty the store, and return an oracle in the same state.

        The stream keeps its numbering, because a connector refuses a node whose seq went back. The
        clock moves on to a moment before a fire time of every schedule, so that examples can be
        repeated.
        """
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
        """Return every row of every table that matters, in the order of the primary key."""
        async with self.store._database.open_snapshot() as connection:
            tables = {}
            for table in (*TABLES, stream):
                rows = await connection.execute(sa.select(table).order_by(*table.primary_key))
                tables[table.name] = [dict(row) for row in rows.mappings()]
            return tables


@contextmanager
def open_sync_store(urls: Sequence[str]) -> Iterator[SyncStore]:
    clock = FakeClock()
    with asyncio.Runner() as runner:
        store = runner.run(open_store(urls, now=clock))
        try:
            yield SyncStore(runner, store, clock)
        finally:
            runner.run(store.close())


def expected(model: Model) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that `read_all` must find, without `revision`, which only has to grow."""
    return {
        "runs": [model.row(run) for run in model.runs],
        "events": model.events,
        "inbox": [item._asdict() for item in sorted(model.inbox)],
        "instances": [row._asdict() for _, row in sorted(model.instances.items())],
        "lanes": [lane._asdict() for _, lane in sorted(model.lanes.items())],
        "idempotency_keys": [
            {"idempotency_key": key, "run_id": run_id, "at": at}
            for key, (run_id, _, at) in sorted(model.remembered.items())
        ],
        "saved_keys": [saved._asdict() for _, saved in sorted(model.keys.items())],
        "schedules": [saved._asdict() for _, saved in sorted(model.schedules.items())],
        "stream": [{"seq": model.seq, "pruned_seq": model.pruned_seq}],
    }


def difference(
    expected_rows: dict[str, list[dict[str, Any]]], stored_rows: dict[str, Any]
) -> list[str]:
    """Return each column in which the store differs from the oracle."""
    lines = []
    for table, rows in expected_rows.items():
        if len(rows) != len(stored_rows[table]):
            lines.append(f"{table}: {len(rows)} rows expected, {len(stored_rows[table])} found")
        for expected_row, row in zip(rows, stored_rows[table], strict=False):
            for name, value in expected_row.items():
                if not _agree(value, row[name]):
                    lines.append(
                        f"{table} {_address(expected_row)} {name}: {value!r}, not {row[name]!r}"
                    )
    return lines


def _agree(expected_value: Any, stored_value: Any) -> bool:
    """Compare two values. A dict is a document of the core, in any spelling."""
    return bool(
        expected_value
        == (json.loads(stored_value) if isinstance(expected_value, dict) else stored_value)
    )


def _address(row: dict[str, Any]) -> Any:
    return next(iter(row.values()))
