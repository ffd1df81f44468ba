"""Pages of runs among many: each filter uses its own index, on every database."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from headway.adapters.sql.read.page_runs import page_queries
from headway.adapters.sql.sql_store import SqlStore
from headway.adapters.sql.tables import RUN_COLUMNS, runs
from headway.core.ids import Key, LaneName
from headway.core.run.run import Run
from headway.core.run.status import RunStatus
from headway.core.run.transitions import ACTIVE
from headway.ports.run_reader import RunFilter
from headway.testing import a_run

COUNT = 20_000
RARE = 1_000
"""One in this number of runs is rare, in each of the ways that filters distinguish."""
FAILED, SUCCEEDED = frozenset({RunStatus.FAILED}), frozenset({RunStatus.SUCCEEDED})

FILTERS: dict[str, tuple[RunFilter, str]] = {
    "all": (RunFilter(), ""),
    "failed": (RunFilter(statuses=FAILED), "status"),
    "succeeded": (RunFilter(statuses=SUCCEEDED), "status"),
    "ended badly": (RunFilter(statuses=FAILED | {RunStatus.TIMED_OUT}), "status"),
    "active": (RunFilter(statuses=ACTIVE), "status"),
    "job": (RunFilter(job="rare"), "job"),
    "lane": (RunFilter(lane=LaneName("rare")), "lane"),
    "key": (RunFilter(key=Key("rare")), "key"),
    "job that failed": (RunFilter(job="mirror", statuses=FAILED), "status"),
    "job that went well": (RunFilter(job="rare", statuses=SUCCEEDED), "job"),
    "lane that went well": (RunFilter(lane=LaneName("rare"), statuses=SUCCEEDED), "lane"),
    "key that failed": (RunFilter(key=Key("rare"), statuses=FAILED), "key"),
    "key of a job": (RunFilter(key=Key("rare"), job="mirror"), "key"),
    "key that is active": (RunFilter(key=Key("busy"), statuses=ACTIVE), "head_key"),
}


def a_past_run(seq: int) -> Run:
    """Return a run. One in a thousand has failed; others have a rare job, lane or key."""
    is_rare = [seq % RARE == turn for turn in range(4)]
    return a_run(
        seq=seq,
        id=f"run-{seq}",
        key="rare" if is_rare[3] else f"key-{seq % 100}",
        job="rare" if is_rare[1] else "mirror",
        lane="rare" if is_rare[2] else "main",
        status=RunStatus.FAILED if is_rare[0] else RunStatus.SUCCEEDED,
        head_key=None,
        queue_rank=None,
        ready_seq=None,
        started_at=1,
        ended_at=2,
    )


@pytest.fixture
async def past_runs(store: SqlStore) -> list[Run]:
    """Many ended runs and one active run, in a database with current planner statistics."""
    active = a_run(seq=COUNT + 1, id="busy", key="busy", head_key="busy")
    past_runs = [*map(a_past_run, range(1, COUNT + 1)), active]
    rows = [{**run._asdict(), "params": "{}"} for run in past_runs]
    async with store._database.engine.begin() as connection:
        await connection.execute(sa.insert(runs), rows)
        dialect = connection.dialect.name
        if dialect != "sqlite":  # SQLite has no statistics: its planner must work without them.
            await connection.execute(sa.text(_ANALYZE[dialect]))
    return past_runs


_ANALYZE = {
    "postgresql": "ANALYZE runs",
    "mysql": "ANALYZE TABLE runs",
    "mariadb": "ANALYZE TABLE runs",
}


@pytest.mark.proves("I19")
async def test_page_among_many_runs_comes_from_the_index_of_its_filter(
    store: SqlStore, past_runs: list[Run]
) -> None:
    wrong = {}
    async with store._database.engine.connect() as connection:
        for name, (run_filter, column) in FILTERS.items():
            select = sa.select(*RUN_COLUMNS)
            for query in page_queries(select, run_filter, limit=50, before_seq=COUNT + 9):
                plan = await read_plan(connection, query)
                if not is_from_index(connection.dialect.name, plan, column):
                    wrong[name] = plan
    assert wrong == {}


@pytest.mark.proves("I19")
async def test_pages_among_many_runs_are_complete_and_in_order(
    store: SqlStore, past_runs: list[Run]
) -> None:
    for name, (run_filter, _) in FILTERS.items():
        fitting = [run.seq for run in reversed(past_runs) if fits(run, run_filter)]
        first = [record async for record in store.runs.list_runs(run_filter, limit=7)]
        assert [run.run.seq for run in first] == fitting[:7], name
        if len(fitting) > 7:
            second = store.runs.list_runs(run_filter, limit=7, before_seq=first[-1].run.seq)
            assert [run.run.seq async for run in second] == fitting[7:14], name


def fits(run: Run, run_filter: RunFilter) -> bool:
    return (
        (not run_filter.statuses or run.status in run_filter.statuses)
        and run_filter.key in (None, run.key)
        and run_filter.job in (None, run.job)
        and run_filter.lane in (None, run.lane)
    )


async def read_plan(connection: Any, query: sa.Select[Any]) -> list[str]:
    """Return the steps of the query plan in the format of the database."""
    dialect = connection.dialect
    sql = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    match dialect.name:
        case "sqlite":
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}")
            return [row[3] for row in rows]
        case "postgresql":
            rows = await connection.exec_driver_sql(f"EXPLAIN {sql}")
            return [row[0].strip() for row in rows]
        case _:
            rows = await connection.exec_driver_sql(f"EXPLAIN {sql}".replace("%", "%%"))
            return [json.dumps(dict(row._mapping)) for row in rows]


def is_from_index(dialect: str, plan: Sequence[str], column: str) -> bool:
    """Return whether the plan uses that column's index, or `seq` alone, and no full scan."""
    text = "\n".join(plan)
    match dialect:
        case "sqlite":
            has_index = f"({column}=?" in text if column else "INTEGER PRIMARY KEY" in text
            return has_index and "SCAN runs" not in text
        case "postgresql":
            name = f"ix_runs_{column}_seq" if column != "head_key" else "uq_runs_head_key"
            # Rows that match nearly all runs are found at once by `seq` as well.
            return "Seq Scan" not in text and (name in text or "pk_runs" in text)
        case _:
            (step,) = (json.loads(line) for line in plan)
            return step["type"] != "ALL" and step["key"] is not None
