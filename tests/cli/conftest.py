"""Databases in the states that commands encounter, and commands run in this process."""

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headway.bootstrap import upgrade_database
from tests.api.conftest import served
from tests.cli.command_runner import CommandRunner
from tests.contract.backends import run_in_thread
from tests.servers import MariaDBServer, PostgresServer

APP = "tests.cli.jobs_file:hw"


@pytest.fixture(scope="session")
def our_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a SQLite file with the newest schema of headway."""
    path = tmp_path_factory.mktemp("cli") / "ours.db"
    run_in_thread(lambda: upgrade_database([f"sqlite:///{path}"]))
    return path.read_bytes()


class ServerDatabase:
    """A database on a server, created empty."""

    def __init__(self, server: PostgresServer | MariaDBServer, name: str) -> None:
        self._server = server
        self._name = name
        self.url = server.url(name)

    def execute(self, statement: str) -> str:
        if isinstance(self._server, PostgresServer):
            return self._server.execute(statement, database=self._name)
        return self._server.execute(f"USE {self._name}", statement)

    def table_count(self) -> int:
        is_postgres = isinstance(self._server, PostgresServer)
        schema = "public" if is_postgres else self._name
        return int(
            self.execute(
                "SELECT COUNT(*) FROM information_schema.tables"  # noqa: S608
                f" WHERE table_schema = '{schema}'"
            )
        )


@pytest.fixture
def server_database(request: pytest.FixtureRequest, backend: str) -> Iterator[ServerDatabase]:
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    name = f"cli_{uuid4().hex[:12]}"
    server.create_database(name)
    yield ServerDatabase(server, name)
    server.drop_database(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working directory of the command."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture(params=["server", "database"])
async def cli(
    request: pytest.FixtureRequest,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> AsyncIterator[CommandRunner]:
    monkeypatch.chdir(tmp_path)
    async with served(url, has_schedule=True) as client:
        if request.param == "server":
            monkeypatch.setenv("HEADWAY_URL", client.address)
        else:
            monkeypatch.setenv("HEADWAY_DATABASE_URL", url)
            monkeypatch.setenv("HEADWAY_APP", APP)
            # The module reads its database URL at import time, so it must be imported again.
            monkeypatch.delitem(sys.modules, APP.partition(":")[0], raising=False)
        yield CommandRunner(capsys, client)
