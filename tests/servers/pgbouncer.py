"""A throw-away PgBouncer in front of a PostgreSQL server."""

import signal
import socket
from typing import Final, Literal

from tests.servers.folder import Folder
from tests.servers.postgres import PostgresServer
from tests.servers.process import Server, ServerProcess, free_port
from tests.servers.programs import pgbouncer_program

PoolMode = Literal["session", "transaction", "statement"]
_SETTINGS: Final = """
[databases]
* = host={host} port={port} user=headway

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = {pool_mode}
default_pool_size = 40
max_client_conn = 200
{more}
"""


class PgBouncer(Server):
    def url(self, database: str) -> str:
        return f"postgresql://headway@{self.host}:{self.port}/{database}"


def start_pgbouncer(server: PostgresServer, pool_mode: PoolMode, *, more: str = "") -> PgBouncer:
    """Start PgBouncer; `more` are further lines of its settings."""
    program, folder, port = pgbouncer_program(), Folder("pgbouncer"), free_port()
    settings = folder.path / "pgbouncer.ini"
    settings.write_text(
        _SETTINGS.format(
            host=server.host,
            port=server.port,
            listen_port=port,
            pool_mode=pool_mode,
            more=more,
        )
    )
    folder.hand_over(settings)
    process = ServerProcess(
        [program, settings],
        folder=folder,
        is_ready=lambda: _is_listening(port),
        stop_signal=signal.SIGINT,
    )
    try:
        process.start()
    except BaseException:
        folder.remove()
        raise
    return PgBouncer(process, port=port)


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
