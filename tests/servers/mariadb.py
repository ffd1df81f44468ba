"""Throw-away MariaDB: one server, or two of which only one is writable."""

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import pymysql

from tests.servers.folder import Folder
from tests.servers.process import Server, ServerProcess, free_port, run_once
from tests.servers.programs import mariadb_programs

ADDRESS_VARIABLE: Final = "HEADWAY_TEST_MARIADB_URL"
# Fast, and safe against a killed process (though not against a power cut): each commit is written
# to the log, and only flushing the log from the kernel to the disk is left to the kernel.
_SETTINGS: Final[Mapping[str, str]] = {
    "bind-address": "127.0.0.1",
    "character-set-server": "utf8mb4",
    "collation-server": "utf8mb4_bin",
    "innodb-buffer-pool-size": "128M",
    "innodb-doublewrite": "0",
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-use-native-aio": "0",
    "max-connections": "400",
    "performance-schema": "0",
    "skip-log-bin": "1",
    "skip-name-resolve": "1",
}
# All rights except those that would let it write to a read-only server.
_ACCOUNT: Final = (
    "CREATE USER headway@'%' IDENTIFIED BY 'headway'",
    "GRANT ALL PRIVILEGES ON *.* TO headway@'%' WITH GRANT OPTION",
    "REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM headway@'%'",
)


class MariaDBServer(Server):
    """One server.

    `headway` (password `headway`) may do everything but write to a read-only server.
    """

    def __init__(self, process: ServerProcess | None, *, url: str) -> None:
        address = urlsplit(url)
        super().__init__(process, port=address.port or 3306)
        self.host = address.hostname or "127.0.0.1"
        self.version = ""
        self._address = address

    def url(self, database: str = "headway", *, user: str = "headway") -> str:
        if self._process is None:  # A URL from the environment also contains the user.
            return self._address._replace(path=f"/{database}").geturl()
        return f"mysql://{user}:{user}@{self.host}:{self.port}/{database}"

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def set_read_only(self, wanted: bool, /) -> None:
        self.execute(f"SET GLOBAL read_only = {int(wanted)}")

    def execute(self, *statements: str) -> str:
        """Run statements as root; return the last one's first value, as text."""
        with contextlib.closing(self._connect()) as connection, connection.cursor() as cursor:
            row = None
            for statement in statements:
                cursor.execute(statement)
                row = cursor.fetchone()
            return "" if row is None else str(row[0])

    def answers(self) -> bool:
        # By a bare socket: a driver that is refused leaks a socket.
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self._socket) == 0

    @property
    def _socket(self) -> str:
        return str(self._ours.folder.path / "socket")

    def _connect(self) -> Any:
        if self._process is not None:
            return pymysql.connect(unix_socket=self._socket, user="root", autocommit=True)
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self._address.username,
            password=self._address.password or "",
            autocommit=True,
        )


class MariaDBPair:
    """Two servers without replication. The second refuses writes until `promote`."""

    def __init__(self, primary: MariaDBServer, standby: MariaDBServer) -> None:
        self.primary = primary
        self.standby = standby

    def urls(self, database: str = "headway") -> list[str]:
        return [self.primary.url(database), self.standby.url(database)]

    def create_database(self, name: str) -> None:
        self.primary.create_database(name)
        self.standby.create_database(name)

    def drop_database(self, name: str) -> None:
        self.primary.drop_database(name)
        self.standby.drop_database(name)

    def promote(self) -> None:
        """Make the second server writable, and the first one read-only. Never both at once."""
        self.primary.set_read_only(True)
        self.standby.set_read_only(False)

    def fail_back(self) -> None:
        self.standby.set_read_only(True)
        self.primary.set_read_only(False)

    def stop(self) -> None:
        self.standby.stop()
        self.primary.stop()


def start_mariadb(*, settings: Mapping[str, str] | None = None) -> MariaDBServer:
    """Start a server. `settings` are options of mariadbd, and override the defaults."""
    given = os.environ.get(ADDRESS_VARIABLE)
    if given and not settings:
        server = MariaDBServer(None, url=given)
        server.version = server.execute("SELECT VERSION()")
        return server
    return _start_private(settings or {})


def start_mariadb_pair() -> MariaDBPair:
    primary = _start_private({})
    try:
        standby = _start_private({})
    except BaseException:
        primary.stop()
        raise
    standby.set_read_only(True)
    return MariaDBPair(primary, standby)


def _start_private(settings: Mapping[str, str]) -> MariaDBServer:
    program, install = mariadb_programs()
    folder, port = Folder("my"), free_port()
    data = folder.path / "data"
    options = {
        "datadir": str(data),
        "pid-file": str(folder.path / "pid"),
        "port": str(port),
        "socket": str(folder.path / "socket"),
        **_SETTINGS,
        **settings,
    }
    process = ServerProcess(
        [program, "--no-defaults", *(f"--{name}={value}" for name, value in options.items())],
        folder=folder,
        is_ready=lambda: bool(server.answers()),
    )
    server = MariaDBServer(process, url=f"mysql://headway:headway@127.0.0.1:{port}/headway")
    try:
        run_once(
            *(install, "--no-defaults", f"--datadir={data}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", "--skip-name-resolve"),
            folder=folder,
        )
        process.start()
    except BaseException:
        folder.remove()
        raise
    server.execute(*_ACCOUNT)
    server.create_database("headway")
    server.version = server.execute("SELECT VERSION()")
    return server
