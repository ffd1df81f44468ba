"""The raw side is fair: it leaves the same rows in every table as the store."""

from typing import Any, Final

import pytest

from headway.adapters.sql.sql_store import open_store
from headway.adapters.sql.tables import metadata
from tests.bench.child import raw_runs, upgrade
from tests.bench.work import cycle_once, working_store
from tests.contract.backends import open_database_url, read_all

CYCLE_COUNT: Final = 3
# Columns that differ between runs, and between processes.
OWN_COLUMNS: Final = {
    "runs": {"id", "key", "queued_at", "started_at", "ended_at", "updated_at"},
    "events": {"run_id", "key", "at"},
    "instances": {"id", "lease_expires_at", "started_at"},
    "stream": {"cluster_id", "epoch"},
}


async def tables(url: str) -> dict[str, list[dict[str, Any]]]:
    store = await open_store([url])
    try:
        everything = await read_all(store)
    finally:
        await store.close()
    return {
        name: [
            {column: value for column, value in row.items() if column not in own}
            for row in (_named(name, values) for values in rows)
        ]
        for name, rows in everything.items()
        for own in (OWN_COLUMNS.get(name, set()),)
    }


def _named(table: str, values: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(metadata.tables[table].c.keys(), values, strict=True))


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mariadb"])
async def test_the_raw_driver_benchmark_writes_the_same_rows_as_the_store(
    backend: str, request: pytest.FixtureRequest
) -> None:
    with open_database_url(backend, request, name="ours") as url:
        await upgrade(url, durability="process")
        async with working_store(url, durability="process") as (store, instance_id):
            for _ in range(CYCLE_COUNT):
                await cycle_once(store, instance_id)
        ours = await tables(url)
    with open_database_url(backend, request, name="raw") as url:
        await upgrade(url, durability="process")
        async with raw_runs(url, durability="process") as (driver, runs):
            for _ in range(CYCLE_COUNT - 1):  # The store made the first one, for the recording.
                for transaction in runs.cycle(1):
                    await driver.transact(transaction)
        raw = await tables(url)
    assert len(ours["runs"]) == CYCLE_COUNT
    assert raw == ours
