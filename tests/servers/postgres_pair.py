"""Two PostgreSQL servers, the second a standby of the first, for failover."""

from tests.servers.folder import Folder
from tests.servers.postgres import PostgresServer, start_private_postgres, stopped_postgres
from tests.servers.process import START_TIMEOUT_S, wait_until


class PostgresPair:
    """A primary and a standby. The names stay with the addresses when the roles change.

    A commit is answered only when the other server has it too, so that a failover loses no answered
    commit. A primary without a standby therefore waits.
    """

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.primary = primary
        self.standby = standby

    def urls(self, database: str = "postgres") -> list[str]:
        return [self.primary.url(database), self.standby.url(database)]

    def promote(self) -> None:
        """Make the standby a primary. Return when it is writable."""
        self.standby.execute("SELECT pg_promote(true, 30)")
        wait_until(
            lambda: not self.standby.is_in_recovery(),
            what="the standby is promoted",
            timeout_s=START_TIMEOUT_S,
        )

    def rejoin(self) -> None:
        """Bring the first server back after `promote`, emptied, as a standby of the second."""
        self.primary.kill()
        self.primary.follow(self.standby)
        _wait_for_each_commit(self.standby)

    def fail_back(self) -> None:
        """End the second server after `rejoin` and promote the first, as in the beginning."""
        self.standby.kill()
        self.primary.execute("SELECT pg_promote(true, 30)")
        wait_until(
            lambda: not self.primary.is_in_recovery(),
            what="the first server is promoted",
            timeout_s=START_TIMEOUT_S,
        )
        self.standby.follow(self.primary)
        _wait_for_each_commit(self.primary)

    def stop(self) -> None:
        self.standby.stop()
        self.primary.stop()


def start_postgres_pair() -> PostgresPair:
    primary = start_private_postgres()
    folder = Folder("pg")
    try:
        standby = stopped_postgres(folder, settings={})
        standby.follow(primary)
        _wait_for_each_commit(primary)
    except BaseException:
        folder.remove()
        primary.stop()
        raise
    primary.read_version()
    standby.read_version()
    return PostgresPair(primary, standby)


def _wait_for_each_commit(primary: PostgresServer) -> None:
    # Written after the copy was made, so that a promoted standby does not wait for another one.
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
    wait_until(
        lambda: primary.execute("SELECT count(*) FROM pg_stat_replication") == "1",
        what="the standby follows",
        timeout_s=START_TIMEOUT_S,
    )
