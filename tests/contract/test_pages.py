"""Pages of runs among many: each filter is answered from its own index, on every database."""

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
"""Of so many runs one is rare, in whichever way."""
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
    """One in a thousand has failed; others have a job, a lane or a key that hardly any has."""
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
async def past(store: SqlStore) -> list[Run]:
    """Many runs that are over and one that is active, and a database that knows its figures."""
    active = a_run(seq=COUNT + 1, id="busy", key="busy", head_key="busy")
    past = [*map(a_past_run, range(1, COUNT + 1)), active]
    rows = [{**run._asdict(), "params": "{}"} for run in past]
    async with store._database.engine.begin() as connection:
        await connection.execute(sa.insert(runs), rows)
        dialect = connection.dialect.name
        if dialect != "sqlite":  # There nobody counts: it must do without.
            await connection.execute(sa.text(_COUNTED[dialect]))
    return past


_COUNTED = {
    "postgresql": "ANALYZE runs",
    "mysql": "ANALYZE TABLE runs",
    "mariadb": "ANALYZE TABLE runs",
}


@pytest.mark.proves("I19")
async def test_a_page_among_many_runs_comes_from_the_index_of_its_filter(
    store: SqlStore, past: list[Run]
) -> None:
    wrong = {}
    async with store._database.engine.connect() as connection:
        for name, (wanted, column) in FILTERS.items():
            select = sa.select(*RUN_COLUMNS)
            for query in page_queries(select, wanted, limit=50, before_seq=COUNT + 9):
                plan = await explained(connection, query)
                if not is_from_index(connection.dialect.name, plan, column):
                    wrong[name] = plan
    assert wrong == {}


@pytest.mark.proves("I19")
async def test_pages_among_many_runs_are_whole_and_in_order(
    store: SqlStore, past: list[Run]
) -> None:
    for name, (wanted, _) in FILTERS.items():
        fitting = [run.seq for run in reversed(past) if fits(run, wanted)]
        first = [one async for one in store.runs.list_runs(wanted, limit=7)]
        assert [one.run.seq for one in first] == fitting[:7], name
        if len(fitting) > 7:
            second = store.runs.list_runs(wanted, limit=7, before_seq=first[-1].run.seq)
            assert [one.run.seq async for one in second] == fitting[7:14], name


def fits(run: Run, wanted: RunFilter) -> bool:
    return (
        (not wanted.statuses or run.status in wanted.statuses)
        and wanted.key in (None, run.key)
        and wanted.job in (None, run.job)
        and wanted.lane in (None, run.lane)
    )


async def explained(connection: Any, query: sa.Select[Any]) -> list[str]:
    """The steps of its plan, in the words of the database."""
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
    """Whether it goes to its rows by that column's index, or by `seq` alone, and not over all."""
    told = "\n".join(plan)
    match dialect:
        case "sqlite":
            has_index = f"({column}=?" in told if column else "INTEGER PRIMARY KEY" in told
            return has_index and "SCAN runs" not in told
        case "postgresql":
            name = f"ix_runs_{column}_seq" if column != "head_key" else "uq_runs_head_key"
            # What nearly all runs are is found at once by `seq` too.
            return "Seq Scan" not in told and (name in told or "pk_runs" in told)
        case _:
            (step,) = (json.loads(one) for one in plan)
            return step["type"] != "ALL" and step["key"] is not None
