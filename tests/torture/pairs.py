"""Two servers of which one is writable: how they fail over, and how the old primary comes back."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import pymysql

from headway.adapters.sql.tables import metadata
from headway.bootstrap import upgrade_database
from tests.servers import (
    MariaDBPair,
    MariaDBServer,
    PostgresPair,
    start_mariadb_pair,
    start_postgres_pair,
)

DATABASE: Final = "torture"
ROW_COUNT_MAX: Final = 500


class Pair(Protocol):
    urls: list[str]

    def fail_over(self) -> None:
        """Stop the first server. The second has all answered commits and becomes writable."""
        ...

    def bring_back_alone(self) -> tuple[int, int]:
        """Make the first server writable again and stop the second.

        Return the state it started with.
        """
        ...

    def end_the_confusion(self) -> None:
        """Make only the second server writable, as after `fail_over`."""
        ...

    def fail_back(self) -> None:
        """Stop the second server. The first, with all answered commits, becomes writable."""
        ...

    def old_state(self) -> tuple[int, int]:
        """Return the epoch and the seq of the first server."""
        ...


class PostgresFailover:
    """A streaming pair that commits on both: the primary is killed, and its standby promoted."""

    def __init__(self, pair: PostgresPair) -> None:
        self._pair = pair
        self.urls = pair.urls(DATABASE)

    def fail_over(self) -> None:
        self._pair.primary.kill()
        self._pair.promote()

    def bring_back_alone(self) -> tuple[int, int]:
        old = self._pair.primary
        old.restart()
        # Otherwise it would wait for its standby instead of refusing a write, and hide the bug.
        old.execute("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        state = self.old_state()
        self._pair.standby.kill()
        return state

    def end_the_confusion(self) -> None:
        self._pair.standby.restart()
        self._pair.rejoin()

    def fail_back(self) -> None:
        self._pair.fail_back()

    def old_state(self) -> tuple[int, int]:
        query = "SELECT epoch || ' ' || seq FROM stream"
        epoch, seq = self._pair.primary.execute(query, database=DATABASE).split()
        return int(epoch), int(seq)


class MariaDBFailover:
    """Two plain servers: the data is copied to the other while neither is writable."""

    def __init__(self, pair: MariaDBPair) -> None:
        self._first, self._second = pair.primary, pair.standby
        self.urls = pair.urls(DATABASE)

    def fail_over(self) -> None:
        self._hand_over(self._first, self._second)

    def bring_back_alone(self) -> tuple[int, int]:
        state = self.old_state()
        self._second.set_read_only(True)
        self._first.set_read_only(False)
        return state

    def end_the_confusion(self) -> None:
        self._first.set_read_only(True)
        self._second.set_read_only(False)

    def fail_back(self) -> None:
        self._hand_over(self._second, self._first)

    def old_state(self) -> tuple[int, int]:
        query = f"SELECT CONCAT(epoch, ' ', seq) FROM {DATABASE}.stream"  # noqa: S608
        epoch, seq = self._first.execute(query).split()
        return int(epoch), int(seq)

    def _hand_over(self, source: MariaDBServer, target: MariaDBServer) -> None:
        source.set_read_only(True)
        with _connected(source) as reader, _connected(target) as writer:
            for table in metadata.sorted_tables:
                _copy(table.name, reader, writer)
            writer.commit()
        target.set_read_only(False)


def _connected(server: MariaDBServer) -> contextlib.closing[Any]:
    """Connect as root, which may write also to a read-only server."""
    socket = str(server.folder / "socket")
    return contextlib.closing(
        pymysql.connect(unix_socket=socket, user="root", database=DATABASE, charset="utf8mb4")
    )


def _copy(table: str, reader: Any, writer: Any) -> None:
    with reader.cursor(pymysql.cursors.SSCursor) as source, writer.cursor() as target:
        target.execute(f"DELETE FROM {table}")  # noqa: S608
        source.execute(f"SELECT * FROM {table}")  # noqa: S608
        while rows := source.fetchmany(ROW_COUNT_MAX):
            marks = ", ".join(["%s"] * len(rows[0]))
            target.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608


@contextmanager
def postgres_pair() -> Iterator[Pair]:
    pair = start_postgres_pair()
    try:
        pair.primary.create_database(DATABASE)
        asyncio.run(upgrade_database([pair.primary.url(DATABASE)]))
        yield PostgresFailover(pair)
    finally:
        pair.stop()


@contextmanager
def mariadb_pair() -> Iterator[Pair]:
    pair = start_mariadb_pair()
    try:
        pair.standby.set_read_only(False)
        pair.create_database(DATABASE)
        for server in (pair.primary, pair.standby):
            asyncio.run(upgrade_database([server.url(DATABASE)]))
        pair.standby.set_read_only(True)
        yield MariaDBFailover(pair)
    finally:
        pair.stop()


PAIRS: Final = {"postgres": postgres_pair, "mariadb": mariadb_pair}
