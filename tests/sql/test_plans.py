"""Queries are answered from an index, so they cost the same in a table of any size."""

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from headway.adapters.sql.read import read_doctor, read_situation
from headway.adapters.sql.sql_store import open_store
from headway.adapters.sql.statements import Query, compile_query
from headway.adapters.sql.write import load, writer
from headway.adapters.sql.write import load_pruning as load_pruned
from headway.adapters.sql.write.links.sqlite_link import SqliteLink

QUERIES = {
    name: query
    for module in (load, load_pruned, read_situation, writer)
    for name, query in vars(module).items()
    if isinstance(query, Query)
}
DOCTORS_QUERIES = {
    name: query for name, query in vars(read_doctor).items() if isinstance(query, sa.Select)
}
PARAMETERS: dict[str, Any] = {
    "ids": ["a"],
    "keys": ["a"],
    "lane": "main",
    "after_seq": 1,
    "up_to_seq": 2,
    "limit": 1,
}
GROWING_TABLES = ("runs", "events", "inbox", "interrupts", "saved_keys", "idempotency_keys")


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[sqlite3.Connection]:
    path = tmp_path / "plans.db"
    store = await open_store([f"sqlite:///{path}"])
    await store.close()
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


@pytest.mark.proves("I19")
@pytest.mark.backend("sqlite-file")
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_no_query_reads_a_whole_table(connection: sqlite3.Connection, name: str) -> None:
    compiled = compile_query(QUERIES[name], SqliteLink.dialect)
    arguments = dict.fromkeys(compiled.names, json.dumps(["a"])) | compiled.constants
    assert list_scans(connection, compiled.sql, arguments) == []


@pytest.mark.proves("I19")
@pytest.mark.backend("sqlite-file")
@pytest.mark.parametrize("name", sorted(DOCTORS_QUERIES))
def test_no_query_of_the_doctor_reads_a_whole_table(
    connection: sqlite3.Connection, name: str
) -> None:
    query = DOCTORS_QUERIES[name]
    names = {parameter for parameter in query.compile().params if parameter in PARAMETERS}
    bound_query = query.params(**{name: PARAMETERS[name] for name in names})
    sql = bound_query.compile(dialect=SqliteLink.dialect, compile_kwargs={"literal_binds": True})
    assert list_scans(connection, str(sql), {}) == []


def list_scans(connection: sqlite3.Connection, sql: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the steps of the plan that scan the whole of a growing table."""
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]
    return [step for step in plan for table in GROWING_TABLES if step.startswith(f"SCAN {table}")]
