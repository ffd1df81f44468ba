"""The contract's two sides, the durable one on every database."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contract.backends import database_on
from tests.queueing.queues import Queue, durable, in_process
from tests.services import MariaDBServer, PostgresServer


@pytest.fixture(params=["in-process", "sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if backend in {"in-process", "sqlite"}:
        yield f"sqlite:///{tmp_path}/headway.db"
        return
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{backend}_server")
    with database_on(server) as name:
        yield server.url(name)


@pytest.fixture
async def queue(backend: str, url: str) -> AsyncIterator[Queue]:
    async with in_process() if backend == "in-process" else durable(url) as opened:
        yield opened
