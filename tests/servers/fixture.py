"""Run a server for the duration of a fixture."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import pytest

from tests.servers.process import Missing


class Stoppable(Protocol):
    def stop(self) -> None: ...


S = TypeVar("S", bound=Stoppable)


def running(start: Callable[[], S], request: pytest.FixtureRequest) -> Iterator[S]:
    """Start a server and stop it again. A missing one skips the test or, on request, fails it."""
    try:
        server = start()
    except Missing as reason:
        if request.config.getoption("--require-services"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))
    try:
        yield server
    finally:
        server.stop()
