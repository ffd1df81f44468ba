"""MariaDB and MySQL through aiomysql."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy.dialects.mysql.aiomysql import MySQLDialect_aiomysql
from sqlalchemy.engine import Dialect

from headway.adapters.sql.clock import NOW_SQL
from headway.adapters.sql.server import RawConnection
from headway.adapters.sql.statements import (
    Query,
    Row,
    Update,
    Write,
    compile_query,
    compile_write,
)

STATEMENT_LENGTH_MAX: Final = 1_000_000


class MysqlLink:
    dialect: Dialect = MySQLDialect_aiomysql()
    now_sql: str | None = NOW_SQL["mysql"]

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    async def begin(self) -> None:
        await self._connection.begin()

    async def commit(self, _notice: str | None = None, /) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def fetch(self, query: Query, parameters: Mapping[str, Any]) -> Sequence[Row]:
        compiled = compile_query(query, self.dialect)
        async with self._connection.cursor() as cursor:
            await cursor.execute(compiled.sql, compiled.arguments(parameters))
            rows: Sequence[Row] = await cursor.fetchall()
        return rows

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        return [row for each in many for row in await self.fetch(query, each)]

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        async with self._connection.cursor() as cursor:
            if isinstance(statement, Update) and len(rows) > 1:
                return await _update_together(cursor, statement, rows)
            # The driver sends inserts together by itself, and adds up the counts of the rest.
            return int(await cursor.executemany(compile_write(statement, self.dialect), rows))

    async def write_all(self, writes: Sequence[tuple[Write, Sequence[Row]]]) -> list[int]:
        return [await self.write(statement, rows) for statement, rows in writes]

    async def close(self) -> None:
        self._connection.close()


async def _update_together(cursor: Any, update: Update, rows: Sequence[Row]) -> int:
    """Join the table with the values, in statements of bounded length; how many rows matched."""
    first, next_one, tail = _joined(update)
    matched_count = 0
    members: list[str] = []
    length = 0
    for row in rows:
        members.append(cursor.mogrify(next_one if members else first, row))
        length += len(members[-1])
        if length > STATEMENT_LENGTH_MAX or row is rows[-1]:
            values = " UNION ALL ".join(members)
            matched_count += await cursor.execute(f"UPDATE ({values}) AS v {tail}")
            members, length = [], 0
    return matched_count


@lru_cache(maxsize=512)
def _joined(update: Update) -> tuple[str, str, str]:
    quote = MysqlLink.dialect.identifier_preparer.quote
    table = quote(update.table.name)
    names = (*update.sets, *update.guards)
    first = ", ".join(f"%s AS c{i}" for i in range(len(names)))
    next_one = ", ".join(["%s"] * len(names))
    changes = ", ".join(f"{table}.{quote(name)} = v.c{i}" for i, name in enumerate(update.sets))
    guards = " AND ".join(
        f"{table}.{quote(name)} = v.c{i}" for i, name in enumerate(update.guards, len(update.sets))
    )
    # The values come first: each then finds its row by the key.
    tail = f"STRAIGHT_JOIN {table} ON {guards} SET {changes}"
    return f"SELECT {first}", f"SELECT {next_one}", tail
