"""Fixtures with a store on every backend, on a clock that the test moves."""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from headway.adapters.sql.sql_store import SqlStore
from headway.api.wire.views import event_view
from headway.core import batch_state
from headway.core.run.events import Event
from headway.testing import FakeClock
from tests.api.openapi import component_validator
from tests.contract.backends import (
    BACKENDS,
    DatabaseTarget,
    closed_port,
    empty_database,
    open_database,
    open_second_store,
    open_target,
    run_in_thread,
    upgrade,
)
from tests.servers import MariaDBServer, PostgresServer


@pytest.fixture(scope="session")
def event_validator() -> Draft202012Validator:
    return component_validator("EventView")


@pytest.fixture(autouse=True)
def described_events(
    monkeypatch: pytest.MonkeyPatch, event_validator: Draft202012Validator
) -> Iterator[None]:
    """Check that every event that a test writes is as the OpenAPI document describes its type."""
    written: list[Event] = []

    def record(*fields: Any) -> Event:
        written.append(Event(*fields))
        return written[-1]

    monkeypatch.setattr(batch_state, "Event", record)
    yield
    for event in written:
        event_validator.validate(json.loads(event_view(event)))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def new_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file to copy, because migrating for every test would take longer than the tests."""
    path = tmp_path_factory.mktemp("sqlite") / "new.db"
    run_in_thread(lambda: upgrade(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    with open_database(postgres_server) as name:
        yield name


@pytest.fixture(scope="session")
def mariadb_database(mariadb_server: MariaDBServer) -> Iterator[str]:
    with open_database(mariadb_server) as name:
        yield name


@pytest.fixture(scope="session")
def dead_port() -> Iterator[int]:
    with closed_port() as port:
        yield port


@pytest.fixture
def target(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseTarget:
    family, _, kind = backend.partition("-")
    if kind == "memory":
        return DatabaseTarget(backend, ["sqlite:///:memory:"])
    if family == "sqlite":
        path = tmp_path / "headway.db"
        shutil.copy(request.getfixturevalue("new_sqlite_file"), path)
        return DatabaseTarget(backend, [f"sqlite:///{path}"])
    server: PostgresServer | MariaDBServer = request.getfixturevalue(f"{family}_server")
    name: str = request.getfixturevalue(f"{family}_database")
    empty_database(server, name)
    url = server.url(name)
    if kind == "several":
        dead_url = url.replace(f":{server.port}/", f":{request.getfixturevalue('dead_port')}/")
        return DatabaseTarget(backend, [dead_url, url])
    return DatabaseTarget(backend, [url])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(target: DatabaseTarget, clock: FakeClock) -> AsyncIterator[SqlStore]:
    async with open_target(target, clock) as opened_store:
        yield opened_store


@pytest.fixture
async def another_store(
    store: SqlStore, target: DatabaseTarget, clock: FakeClock
) -> AsyncIterator[SqlStore]:
    async with open_second_store(store, target, clock) as opened_store:
        yield opened_store
