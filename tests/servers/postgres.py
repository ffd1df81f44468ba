"""A throw-away PostgreSQL server."""

import asyncio
import os
import shutil
import signal
import ssl
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import asyncpg

from tests.servers.certificates import make_certificates
from tests.servers.folder import Folder, release_shared_memory
from tests.servers.process import Missing, Server, ServerProcess, free_port, run_once
from tests.servers.programs import postgres_programs

ADDRESS_VARIABLE: Final = "HEADWAY_TEST_POSTGRES_URL"
# Fast, and safe against a killed process (though not against a power cut): committed data has been
# passed to the kernel. Nothing is stored outside the server's folder.
_SETTINGS: Final[Mapping[str, str]] = {
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "unix_socket_directories": "",
    "wal_keep_size": "256MB",
}
# Every connection needs TLS, and the user `app` also needs a certificate.
_TLS_ACCESS: Final = "hostssl all app 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 trust\n"


class PostgresServer(Server):
    """One server. Its roles need no password: `headway` is a superuser, `app` is not."""

    ca_file: Path
    client_cert_file: Path
    client_key_file: Path

    def __init__(self, process: ServerProcess | None, *, url: str) -> None:
        address = urlsplit(url)
        super().__init__(process, port=address.port or 5432)
        self.host = address.hostname or "127.0.0.1"
        self.version = ""
        self._address = address
        self._tls: ssl.SSLContext | None = None

    def url(self, database: str = "postgres", *, user: str = "headway") -> str:
        if self._process is None:  # A URL from the environment also contains the user.
            return self._address._replace(path=f"/{database}").geturl()
        return f"postgresql://{user}@{self.host}:{self.port}/{database}"

    def create_database(self, name: str) -> None:
        self.execute(f'CREATE DATABASE "{name}"')

    def drop_database(self, name: str) -> None:
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, *statements: str, database: str = "postgres") -> str:
        """Run statements as the superuser; return the last one's first value, as text."""

        async def run() -> str:
            connection = await asyncpg.connect(self.url(database), ssl=self._tls, timeout=10)
            try:
                value = None
                for statement in statements:
                    value = await connection.fetchval(statement)
                return str(value)
            finally:
                await connection.close()

        return _run_apart(run)

    def is_in_recovery(self) -> bool:
        return self.execute("SELECT pg_is_in_recovery()") == "True"

    def read_version(self) -> None:
        self.version = self.execute("SHOW server_version").split()[0]

    def follow(self, primary: "PostgresServer") -> None:
        """Start as a standby of `primary`, with a copy of its data. Own data, if any, is lost."""
        folder = self._ours.folder
        release_shared_memory(folder.path)
        shutil.rmtree(folder.path / "data", ignore_errors=True)
        run_once(
            postgres_programs() / "pg_basebackup",
            *("-R", "-c", "fast", "--no-sync", "-D", folder.path / "data"),
            *("-h", primary.host, "-p", str(primary.port), "-U", "headway"),
            folder=folder,
        )
        self._ours.start()

    def use_tls(self, folder: Path) -> None:
        made = make_certificates(folder, client="app")
        self.ca_file = made.ca_file
        self.client_cert_file = made.certificate_file("client")
        self.client_key_file = made.key_file("client")
        self._tls = ssl.create_default_context(cafile=self.ca_file)


def start_postgres(
    *, tls: bool = False, settings: Mapping[str, str] | None = None
) -> PostgresServer:
    """Start a server. `settings` are those of postgresql.conf, and override the defaults.

    With `tls` every connection needs TLS, and that of `app` the client certificate.
    """
    given = os.environ.get(ADDRESS_VARIABLE)
    if given and not tls and not settings:
        server = PostgresServer(None, url=given)
    else:
        server = start_private_postgres(tls=tls, settings=settings or {})
    server.read_version()
    return server


def start_private_postgres(
    *, tls: bool = False, settings: Mapping[str, str] | None = None
) -> PostgresServer:
    """Start a private server, also if the environment names one."""
    programs, folder = postgres_programs(), Folder("pg")
    data = folder.path / "data"
    try:
        run_once(
            programs / "initdb",
            *("-D", data, "-U", "headway", "--auth=trust", "--no-sync"),
            *("--encoding=UTF8", "--locale=C"),
            folder=folder,
        )
        wanted = dict(settings or {})
        if tls:
            wanted |= _tls_settings(folder)
        server = stopped_postgres(folder, settings=wanted)
        if tls:
            server.use_tls(folder.path)
            folder.hand_over(folder.path / "server.key")
            (data / "pg_hba.conf").write_text(_TLS_ACCESS)
        _start(server)
    except BaseException:
        folder.remove()
        raise
    server.execute("CREATE ROLE app LOGIN")
    return server


def stopped_postgres(folder: Folder, *, settings: Mapping[str, str]) -> PostgresServer:
    """Return a server that is not started yet, on a free port, with its data in `folder`."""
    port, data = free_port(), folder.path / "data"
    options = [f"--{name}={value}" for name, value in ({**_SETTINGS, **settings}).items()]
    process = ServerProcess(
        [postgres_programs() / "postgres", "-D", data, "-p", str(port), *options],
        folder=folder,
        is_ready=lambda: _is_ready(data / "postmaster.pid", pid=process.pid),
        stop_signal=signal.SIGINT,  # Connections are closed; the shutdown does not wait for them.
    )
    return PostgresServer(process, url=f"postgresql://headway@127.0.0.1:{port}/postgres")


def _start(server: PostgresServer) -> None:
    try:
        server.restart()
    except RuntimeError as error:
        if "not supported by this build" in str(error):  # The wheel's PostgreSQL has no TLS.
            raise Missing(
                "PostgreSQL with TLS is not installed here; install it with: "
                "apt-get install postgresql"
            ) from error
        raise


def _tls_settings(folder: Folder) -> dict[str, str]:
    return {
        "ssl": "on",
        "ssl_ca_file": str(folder.path / "ca.crt"),
        "ssl_cert_file": str(folder.path / "server.crt"),
        "ssl_key_file": str(folder.path / "server.key"),
    }


def _is_ready(pid_file: Path, *, pid: int) -> bool:
    """Return whether the server accepts connections, by the eighth line of its own pid file."""
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    # A killed server leaves its file behind, with the same content.
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _run_apart(main: Callable[[], Coroutine[None, None, str]]) -> str:
    """Run a coroutine to its end from synchronous code, also if an event loop is running."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(main())).result()
