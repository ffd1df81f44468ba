"""The contract's two sides, the durable one on every database."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract.backends import url_on
from tests.queueing.queues import Queue, durable, in_process


@pytest.fixture(params=["in-process", "sqlite", "postgres", "mariadb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with url_on("sqlite" if backend == "in-process" else backend, request) as url:
        yield url


@pytest.fixture
async def queue(backend: str, url: str) -> AsyncIterator[Queue]:
    async with in_process() if backend == "in-process" else durable(url) as opened:
        yield opened
