"""The writer's link to PostgreSQL, with asyncpg.

Many rows are sent in one statement, as arrays or by COPY. Small writes to different tables are
combined into one statement, with a common table expression for each of them.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Dialect

from headway.adapters.sql.connect.database_clock import NOW_SQL
from headway.adapters.sql.connect.server_check import RawConnection
from headway.adapters.sql.notice import CHANNEL, encode_notice
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
)
from headway.adapters.sql.tables import metadata
from headway.adapters.sql.write.links.driver_link import Commit, LinkNode

# COPY needs one more round trip than INSERT, but a tenth of the driver's time per row.
COPY_ROW_COUNT_MIN: Final = 20
NOTIFY: Final = f"SELECT pg_notify('{CHANNEL}', '{{}}') WHERE pg_notification_queue_usage() < 0.5; "


class PostgresLink:
    dialect: Dialect = PGDialect_asyncpg()  # type: ignore[no-untyped-call]
    now_sql: str | None = NOW_SQL["postgres"]

    def __init__(self, connection: RawConnection, node: LinkNode) -> None:
        self._connection = connection
        self._node = node

    async def begin(self) -> None:
        self._node.check()
        await self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")

    async def commit(self, batch: Commit | None = None, /) -> None:
        # NOTIFY and COMMIT in one round trip. If the notification queue is full, because a
        # listener was paused for very long, the transaction would fail. So no notice is sent once
        # the queue is half full.
        notice = None if batch is None else encode_notice(batch.writer_id, batch.events)
        notify = "" if notice is None else NOTIFY.format(notice)
        await self._connection.execute(f"{notify}COMMIT")
        if batch is not None:
            self._node.note_commit(batch)

    async def rollback(self) -> None:
        if self._connection.is_in_transaction():
            await self._connection.execute("ROLLBACK")

    async def fetch(self, query: Query, parameters: Mapping[str, Any]) -> Sequence[Row]:
        compiled = compile_query(query, self.dialect)
        rows = await self._connection.fetch(compiled.sql, *compiled.arguments(parameters))
        return [tuple(row) for row in rows]

    async def fetch_each(self, query: Query, many: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        compiled = compile_query(query, self.dialect)
        rows = await self._connection.fetchmany(
            compiled.sql, [compiled.arguments(parameters) for parameters in many]
        )
        return [tuple(row) for row in rows]

    async def write(self, statement: Write, rows: Sequence[Row]) -> int:
        if isinstance(statement, Insert) and len(rows) >= COPY_ROW_COUNT_MIN:
            status = await self._connection.copy_records_to_table(
                statement.table.name, records=rows, columns=statement.columns
            )
        else:
            columns = zip(*rows, strict=True)
            status = await self._connection.execute(_compile_array_write(statement), *columns)
        return int(status.rpartition(" ")[2])

    async def write_all(self, plan: Sequence[PlannedWrite]) -> None:
        for group in _group_writes(plan):
            if len(group) == 1:
                counts = [await self.write(group[0].statement, group[0].rows)]
            else:
                sql = _compile_group(tuple(planned.statement for planned in group))
                columns = [
                    column for planned in group for column in zip(*planned.rows, strict=True)
                ]
                counts = await self._connection.fetchrow(sql, *columns)
            for planned, count in zip(group, counts, strict=True):
                if planned.is_guarded and count != len(planned.rows):
                    raise GuardFailed(planned.statement)

    async def close(self) -> None:
        await self._connection.close(timeout=5)


def _group_writes(plan: Sequence[PlannedWrite]) -> list[list[PlannedWrite]]:
    """Group writes that can form one statement: each has few rows, and no table occurs twice.

    The parts of such a statement do not see each other's changes.
    """
    groups: list[list[PlannedWrite]] = []
    tables: set[str] = set()
    for planned in plan:
        name = planned.statement.table.name
        is_long = len(planned.rows) >= COPY_ROW_COUNT_MIN
        if not groups or is_long or name in tables:
            groups.append([])
            tables = set()
        groups[-1].append(planned)
        # A long write is executed alone.
        tables = set(metadata.tables) if is_long else tables | {name}
    return groups


@lru_cache(maxsize=512)
def _compile_group(writes: tuple[Write, ...]) -> str:
    parts: list[str] = []
    first = 1
    for number, write in enumerate(writes):
        parts.append(f"w{number} AS ({_compile_array_write(write, first=first)} RETURNING 1)")
        first += len(_parameter_columns(write))
    counts = ", ".join(f"(SELECT count(*) FROM w{number})" for number in range(len(writes)))
    return f"WITH {', '.join(parts)} SELECT {counts}"


def _parameter_columns(write: Write) -> tuple[str, ...]:
    match write:
        case Insert(columns=columns):
            return columns
        case Update(sets=sets, guards=guards):
            return (*sets, *guards)
        case Delete(guards=guards):
            return guards


@lru_cache(maxsize=512)
def _compile_array_write(write: Write, first: int = 1) -> str:
    """Return SQL with one array parameter per column, numbered from `first`."""
    arrays = _unnest_arrays(write.table, _parameter_columns(write), first)
    table = _quote(write.table.name)
    match write:
        case Insert(columns=columns):
            names = ", ".join(map(_quote, columns))
            return f"INSERT INTO {table} ({names}) SELECT * FROM {arrays}"
        case Update(sets=sets, guards=guards):
            changes = ", ".join(f"{_quote(name)} = v.c{i}" for i, name in enumerate(sets))
            where = _guard_condition(table, guards, start=len(sets))
            return f"UPDATE {table} SET {changes} FROM {arrays} WHERE {where}"
        case Delete(guards=guards, is_upper_bound=is_upper_bound):
            where = _guard_condition(table, guards, operator="<=" if is_upper_bound else "=")
            return f"DELETE FROM {table} USING {arrays} WHERE {where}"


def _unnest_arrays(table: sa.Table, columns: Sequence[str], first: int) -> str:
    """Return SQL for the array parameters as rows: `unnest($1::text[], …) AS v(c0, …)`."""
    parameters = ", ".join(
        f"${i}::{'text' if isinstance(table.c[name].type, sa.String) else 'bigint'}[]"
        for i, name in enumerate(columns, first)
    )
    return f"unnest({parameters}) AS v({', '.join(f'c{i}' for i in range(len(columns)))})"


def _guard_condition(table: str, guards: Sequence[str], start: int = 0, operator: str = "=") -> str:
    return " AND ".join(
        f"{table}.{_quote(name)} {operator} v.c{i}" for i, name in enumerate(guards, start)
    )


_quote: Final = PostgresLink.dialect.identifier_preparer.quote
