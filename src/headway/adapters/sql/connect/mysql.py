"""Connect to MariaDB and MySQL with aiomysql."""

from typing import Any, Final

import aiomysql
from pymysql.constants import CLIENT, ER
from pymysql.err import Error, OperationalError, ProgrammingError

from headway.adapters.sql.connect.dsn import Address
from headway.adapters.sql.connect.lineage import StreamState
from headway.adapters.sql.connect.server_check import Purpose, RawConnection

READ_ONLY_VARIABLES: Final = (
    "read_only",
    "super_read_only",
    "innodb_read_only",
    "transaction_read_only",
    "tx_read_only",
)
# No server has all of these. SHOW leaves out the unknown ones, while SELECT @@… would fail.
_SHOW_READ_ONLY: Final = "SHOW VARIABLES WHERE Variable_name IN ({})".format(
    ", ".join(f"'{name}'" for name in READ_ONLY_VARIABLES)
)


class MysqlDriver:
    errors: tuple[type[Exception], ...] = (OSError, UnicodeError, Error)

    async def open(self, address: Address, purpose: Purpose) -> RawConnection:
        connection = _MysqlConnection(**address.arguments)
        try:
            await connection._connect()
            await _prepare_session(connection, purpose)
        except BaseException:  # Also if canceled, because the driver would leave the socket open.
            connection.close()
            raise
        return connection

    async def read_only_reason(self, connection: RawConnection) -> str | None:
        variables = await _fetch(connection, _SHOW_READ_ONLY)
        on = [name for name, value in variables if value not in {"OFF", "0"}]
        return f"is read-only ({', '.join(on)})" if on else None

    async def read_stream(self, connection: RawConnection) -> StreamState | None:
        try:
            rows = await _fetch(
                connection, "SELECT cluster_id, epoch, seq FROM stream WHERE id = 1"
            )
        except (ProgrammingError, OperationalError) as error:
            # The tables do not exist yet, or another program has a table of this name.
            if error.args[0] in {ER.NO_SUCH_TABLE, ER.BAD_FIELD_ERROR}:
                return None
            raise
        # Without autocommit the SELECT has begun a transaction, which would hold a metadata lock
        # on the table until the first commit.
        await connection.rollback()
        return StreamState(*rows[0]) if rows else None

    async def raise_epoch(self, connection: RawConnection, *, seen_epoch: int, epoch: int) -> bool:
        async with connection.cursor() as cursor:
            count = await cursor.execute(
                "UPDATE stream SET epoch = %s WHERE id = 1 AND epoch = %s", (epoch, seen_epoch)
            )
        await connection.commit()
        return bool(count == 1)

    def discard(self, connection: RawConnection) -> None:
        connection.close()


class _MysqlConnection(aiomysql.Connection):  # type: ignore[misc]  # The driver is not typed.
    async def _get_server_information(self) -> None:
        await super()._get_server_information()
        # The driver would continue in clear text if the server, or an attacker in the middle,
        # offers no TLS.
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise OperationalError("the server offers no TLS, but the database URL requires it")


async def _prepare_session(connection: RawConnection, purpose: Purpose) -> None:
    settings = {
        "time_zone": "'+00:00'",
        # A value that is too long is an error, as on the other databases, and is never truncated.
        "sql_mode": "CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')",
    }
    if purpose is Purpose.WRITE:
        settings["innodb_lock_wait_timeout"] = "5"
        # The collation of the tables, so that a value can be compared with a column anywhere.
        settings["collation_connection"] = "utf8mb4_bin"
        if "mariadb" in connection.get_server_info().lower():  # MySQL has no such limit.
            settings["idle_write_transaction_timeout"] = "2"
            # Also before the first write of a transaction, because it may already hold row locks.
            settings["idle_transaction_timeout"] = "2"
    assignments = ", ".join(f"SESSION {name} = {value}" for name, value in settings.items())
    await _fetch(connection, f"SET {assignments}")
    # After a failed guard, the next read must see the row that the other writer committed.
    await _fetch(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


async def _fetch(connection: RawConnection, statement: str) -> tuple[tuple[Any, ...], ...]:
    async with connection.cursor() as cursor:
        await cursor.execute(statement)
        return tuple(await cursor.fetchall() or ())
