"""One store for each backend, opened once per test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.contract.backends import open_database
from tests.property.sync_store import SyncStore, open_sync_store

BACKENDS: Final = ("sqlite-file", "sqlite-memory", "postgres", "mariadb")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened_store(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[SyncStore]:
    with ExitStack() as stack:
        match backend:
            case "sqlite-file":
                url = f"sqlite:///{tmp_path}/headway.db"
            case "sqlite-memory":
                url = "sqlite:///:memory:"
            case _:
                server = request.getfixturevalue(f"{backend}_server")
                url = server.url(stack.enter_context(open_database(server)))
        yield stack.enter_context(open_sync_store([url]))
