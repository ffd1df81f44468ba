"""MariaDB and MySQL through aiomysql."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.dialects.mysql.aiomysql import MySQLDialect_aiomysql
from sqlalchemy.engine import Dialect

from headway.adapters.sql.server import RawConnection
from headway.adapters.sql.statements import Query, Row, Write, compile_query, compile_write


class MysqlLink:
    dialect: Dialect = MySQLDialect_aiomysql()
    now_sql: str | None = "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)"

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    async def begin(self) -> None:
        await self._connection.begin()

    async def commit(self) -> None:
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
        sql = compile_write(statement, self.dialect)
        async with self._connection.cursor() as cursor:
            # Inserts travel together; updates go one by one, and their counts are added up.
            return int(await cursor.executemany(sql, rows))

    async def close(self) -> None:
        self._connection.close()
