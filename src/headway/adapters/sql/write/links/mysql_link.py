"""The writer's link to MariaDB and MySQL, with aiomysql."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy.dialects.mysql.aiomysql import MySQLDialect_aiomysql
from sqlalchemy.engine import Dialect

from headway.adapters.sql.connect.database_clock import NOW_SQL
from headway.adapters.sql.connect.server_check import RawConnection
from headway.adapters.sql.statements import (
    Delete,
    GuardFailed,
    Insert,
    PlannedWrite,
    Query,
    Row,
    Update,
    Write,
    compile_query,
    compile_write,
)
from headway.adapters.sql.write.links.driver_link import Commit, LinkNode

STATEMENT_LENGTH_MAX: Final = 1_000_000


class MysqlLink:
    dialect: Dialect = MySQLDialect_aiomysql()
    now_sql: str | None = NOW_SQL["mysql"]

    def __init__(self, connection: RawConnection, node: LinkNode) -> None:
        self._connection = connection
        self._node = node

    async def begin(self) -> None:
        self._node.check()
        await self._connection.begin()

    async def commit(self, batch: Commit | None = None, /) -> None:
        await self._connection.commit()
        if batch is not None:
            self._node.note_commit(batch)

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def fetch(self, query: Query, parameters: Mapping[str, Any]) -> Sequence[Row]:
        compiled = compile_query(query, self.dialect)
        async with self._connection.cursor() as cursor:
            await cursor.execute(compiled.sql, compiled.arguments(parameters))
            rows: Sequence[Row] = await cursor.fetchall()
        return rows

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        return [row for parameters in many for row in await self.fetch(query, parameters)]

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        async with self._connection.cursor() as cursor:
            if len(rows) > 1 and not isinstance(statement, Insert):
                return await _write_joined(cursor, statement, rows)
            # The driver combines inserts into one statement and adds up the counts of other ones.
            return int(await cursor.executemany(compile_write(statement, self.dialect), rows))

    async def write_all(self, plan: Sequence[PlannedWrite]) -> None:
        for planned in plan:
            count = await self.write(planned.statement, planned.rows)
            if planned.is_guarded and count != len(planned.rows):
                raise GuardFailed(planned.statement)

    async def close(self) -> None:
        self._connection.close()


async def _write_joined(cursor: Any, statement: Update | Delete, rows: Sequence[Row]) -> int:
    """Execute `statement` for many rows at once, and return the number of matched rows.

    Each statement joins the table with many values, and has a bounded length. One statement per row
    would need one round trip per row.
    """
    head, first_select, next_select, tail = _compile_join(statement)
    matched_count = 0
    members: list[str] = []
    length = 0
    for row in rows:
        members.append(cursor.mogrify(next_select if members else first_select, row))
        length += len(members[-1])
        if length > STATEMENT_LENGTH_MAX or row is rows[-1]:
            values = " UNION ALL ".join(members)
            matched_count += await cursor.execute(f"{head} ({values}) AS v {tail}")
            members, length = [], 0
    return matched_count


@lru_cache(maxsize=512)
def _compile_join(statement: Update | Delete) -> tuple[str, str, str, str]:
    quote = MysqlLink.dialect.identifier_preparer.quote
    table = quote(statement.table.name)
    sets = statement.sets if isinstance(statement, Update) else ()
    names = (*sets, *statement.guards)
    named_values = ", ".join(f"%s AS c{i}" for i in range(len(names)))
    values = ", ".join(["%s"] * len(names))
    guards = " AND ".join(
        f"{table}.{quote(name)} = v.c{i}" for i, name in enumerate(statement.guards, len(sets))
    )
    # STRAIGHT_JOIN reads the values first, so that each finds its row by the key.
    head, tail = f"DELETE {table} FROM", f"STRAIGHT_JOIN {table} ON {guards}"
    if sets:
        changes = ", ".join(f"{table}.{quote(name)} = v.c{i}" for i, name in enumerate(sets))
        head, tail = "UPDATE", f"{tail} SET {changes}"
    return head, f"SELECT {named_values}", f"SELECT {values}", tail
