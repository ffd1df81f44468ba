"""A database on each backend, under the one address that programs are given."""

from collections.abc import Iterator

import pytest

from tests.contract.backends import url_on


@pytest.fixture
def place(request: pytest.FixtureRequest, backend: str) -> Iterator[str]:
    with url_on(backend, request) as url:
        yield url
