"""Fixtures for both queues of the contract; the durable one runs on every database."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract.backends import open_database_url
from tests.queueing.queues import Queue, durable, in_process


@pytest.fixture(params=["in-process", "sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with open_database_url("sqlite" if backend == "in-process" else backend, request) as url:
        yield url


@pytest.fixture
async def queue(backend: str, url: str) -> AsyncIterator[Queue]:
    async with in_process() if backend == "in-process" else durable(url) as opened:
        yield opened
