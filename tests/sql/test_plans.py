"""What is asked is answered from an index: it costs the same in a table of any size."""

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.adapters.sql import load, read_situation, writer
from headway.adapters.sql.links.sqlite import SqliteLink
from headway.adapters.sql.statements import Query, compile_query
from headway.adapters.sql.store import open_store

QUERIES = {
    name: query
    for module in (load, read_situation, writer)
    for name, query in vars(module).items()
    if isinstance(query, Query)
}
GROWING_TABLES = ("runs", "events", "inbox", "saved_keys", "remembered")


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    path = tmp_path / "plans.db"
    store = await open_store([f"sqlite:///{path}"])
    await store.close()
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


@pytest.mark.backend("sqlite-file")
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_i19_no_query_reads_a_whole_table(
    connection: sqlite3.Connection, name: str
) -> None:
    compiled = compile_query(QUERIES[name], SqliteLink.dialect)
    arguments: list[Any] = [
        compiled.constants.get(parameter, json.dumps(["a"])) for parameter in compiled.names
    ]
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {compiled.sql}", arguments)]
    scanned = [
        step for step in plan for table in GROWING_TABLES if step.startswith(f"SCAN {table}")
    ]
    assert scanned == []
