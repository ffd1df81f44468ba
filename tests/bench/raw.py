"""The raw side: each driver at its best, with nothing around it.

The rows are made beforehand, and only the driver's own time counts. A real program would have to
make them too, so it could not reach these rates.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from headway.adapters.sql.connect.dsn import parse_addresses
from headway.adapters.sql.connect.mysql import MysqlDriver
from headway.adapters.sql.connect.postgres import PostgresDriver
from headway.adapters.sql.connect.server_check import Purpose, RawConnection
from headway.adapters.sql.connect.sqlite import Durability, open_sqlite
from headway.adapters.sql.statements import Insert, Row, Update, Write, compile_write
from headway.adapters.sql.write.links.mysql_link import MysqlLink, _write_joined
from headway.adapters.sql.write.links.postgres_link import COPY_ROW_COUNT_MIN, _compile_array_write
from headway.adapters.sql.write.links.sqlite_link import CHECKPOINT_ROW_COUNT, SqliteLink
from headway.adapters.system.random_ids import SystemIds
from tests.bench.recorded import Pattern, RawRun, Recorded, Transaction, rows_for
from tests.bench.work import Keys

_READ_SEQ: Final = "SELECT seq FROM stream"


class Prepared(NamedTuple):
    """One statement for many rows, ready to be sent."""

    send: Callable[..., Any]
    row_count: int


class RawDriver(Protocol):
    def prepare(self, statement: Write, rows: Sequence[Row]) -> Prepared: ...

    async def transact(self, statements: Sequence[Prepared]) -> None:
        """Send the statements in one transaction. Each must match as many rows as it has."""
        ...

    async def introduce(self, writer_id: str) -> int:
        """Create the raw writer's row. Return the last number of the stream."""
        ...

    async def close(self) -> None: ...


class RawSqlite:
    """SQLite: `executemany`, and checkpoints of the log as often as the store makes them."""

    def __init__(self, path: str, *, durability: Durability) -> None:
        self._connection = open_sqlite(path, durability=durability)
        self._row_count = 0

    def prepare(self, statement: Write, rows: Sequence[Row]) -> Prepared:
        sql = compile_write(statement, SqliteLink.dialect)
        return Prepared(partial(self._connection.executemany, sql, rows), len(rows))

    async def transact(self, statements: Sequence[Prepared]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for send, row_count in statements:
            assert send().rowcount == row_count
            self._row_count += row_count
        connection.execute("COMMIT")
        if self._row_count >= CHECKPOINT_ROW_COUNT:
            self._row_count = 0
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    async def introduce(self, writer_id: str) -> int:
        self._connection.execute(_insert_writer(writer_id))
        return int(self._connection.execute(_READ_SEQ).fetchone()[0])

    async def close(self) -> None:
        self._connection.close()


class RawPostgres:
    """PostgreSQL: COPY for new rows; else one array per column, so that many are one statement."""

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    def prepare(self, statement: Write, rows: Sequence[Row]) -> Prepared:
        if isinstance(statement, Insert) and len(rows) >= COPY_ROW_COUNT_MIN:
            copy = partial(
                self._connection.copy_records_to_table,
                statement.table.name,
                records=rows,
                columns=statement.columns,
            )
            return Prepared(copy, len(rows))
        columns = zip(*rows, strict=True)
        return Prepared(
            partial(self._connection.execute, _compile_array_write(statement), *columns), len(rows)
        )

    async def transact(self, statements: Sequence[Prepared]) -> None:
        await self._connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        for send, row_count in statements:
            status = await send()
            assert int(status.rpartition(" ")[2]) == row_count
        await self._connection.execute("COMMIT")

    async def introduce(self, writer_id: str) -> int:
        await self._connection.execute(_insert_writer(writer_id))
        return int(await self._connection.fetchval(_READ_SEQ))

    async def close(self) -> None:
        await self._connection.close()


class RawMysql:
    """MariaDB: new rows by `executemany`, sent together; changes by a join with their values.

    The driver's `executemany` would send the changes one by one, at a third of the rate.
    """

    def __init__(self, connection: RawConnection) -> None:
        self._connection = connection

    def prepare(self, statement: Write, rows: Sequence[Row]) -> Prepared:
        if isinstance(statement, Update) and len(rows) > 1:
            return Prepared(partial(_write_joined, statement=statement, rows=rows), len(rows))
        sql = compile_write(statement, MysqlLink.dialect)
        return Prepared(lambda cursor: cursor.executemany(sql, rows), len(rows))

    async def transact(self, statements: Sequence[Prepared]) -> None:
        await self._connection.begin()
        for send, row_count in statements:
            async with self._connection.cursor() as cursor:
                assert await send(cursor) == row_count
        await self._connection.commit()

    async def introduce(self, writer_id: str) -> int:
        async with self._connection.cursor() as cursor:
            await cursor.execute(_insert_writer(writer_id))
            await cursor.execute(_READ_SEQ)
            (seq,) = await cursor.fetchone()
        await self._connection.commit()
        return int(seq)

    async def close(self) -> None:
        self._connection.close()


def _insert_writer(writer_id: str) -> str:
    return f"INSERT INTO writers (id, batch, seen_at) VALUES ('{writer_id}', 0, 0)"  # noqa: S608


async def open_raw(url: str, *, durability: Durability) -> RawDriver:
    """Open a connection with the settings of the store's own connections."""
    (address,) = parse_addresses([url])
    match address.driver:
        case "sqlite":
            return RawSqlite(address.database, durability=durability)
        case "postgres":
            return RawPostgres(await PostgresDriver().open(address, Purpose.WRITE))
        case "mysql":
            return RawMysql(await MysqlDriver().open(address, Purpose.WRITE))


class RawRuns:
    """Makes the transactions that the store would send for such runs."""

    def __init__(
        self, driver: RawDriver, pattern: Pattern, *, key_count: int | None = None
    ) -> None:
        self._driver = driver
        self._pattern = pattern
        self._seq = 0
        self._batch_number = 0
        self._ids = SystemIds()
        self._writer_id = self._ids.instance_id()
        self._keys = Keys(key_count)

    async def start(self) -> None:
        self._seq = await self._driver.introduce(self._writer_id)

    def submit(self, count: int) -> tuple[list[RawRun], list[Prepared]]:
        runs = [
            RawRun(self._seq + n, self._ids.run_id(), self._keys.next(), self._ids.nonce() + "-0")
            for n in range(1, count + 1)
        ]
        return runs, self._prepare(self._pattern.submit, runs)

    def claim(self, runs: Sequence[RawRun]) -> list[Prepared]:
        return self._prepare(self._pattern.claim, runs)

    def settle(self, runs: Sequence[RawRun]) -> list[Prepared]:
        return self._prepare(self._pattern.settle, runs)

    def cycle(self, count: int) -> Iterator[list[Prepared]]:
        runs, submit = self.submit(count)
        yield submit
        yield self.claim(runs)
        yield self.settle(runs)

    def _prepare(self, transaction: Transaction, runs: Sequence[RawRun]) -> list[Prepared]:
        self._batch_number += 1
        prepared = [
            self._driver.prepare(recorded.statement, self._rows(recorded, runs))
            for recorded in transaction
        ]
        self._seq += len(runs)
        return prepared

    def _rows(self, recorded: Recorded, runs: Sequence[RawRun]) -> list[Row]:
        match recorded.statement.table.name:
            case "stream":
                _, stream_id, _ = recorded.row
                return [(self._seq + len(runs), stream_id, self._seq)]
            case "writers":
                _, seen_at, _ = recorded.row
                return [(self._batch_number, seen_at, self._writer_id)]
            case _:
                return rows_for(recorded, runs, seq=self._seq)
