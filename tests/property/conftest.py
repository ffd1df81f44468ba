"""One store for each backend, opened once."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.contract.backends import database_on
from tests.property.opened import Opened, opened

BACKENDS: Final = ("sqlite-file", "sqlite-memory", "postgres", "mariadb")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened_store(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with ExitStack() as stack:
        match backend:
            case "sqlite-file":
                url = f"sqlite:///{tmp_path}/headway.db"
            case "sqlite-memory":
                url = "sqlite:///:memory:"
            case _:
                server = request.getfixturevalue(f"{backend}_server")
                url = server.url(stack.enter_context(database_on(server)))
        yield stack.enter_context(opened([url]))
