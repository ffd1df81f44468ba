"""The pytest plugin: an open Headway, and the clock by which it goes.

What is heavy is imported by the fixtures, when a test asks for one.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

try:
    from pytest_asyncio import fixture as async_fixture
except ModuleNotFoundError:  # Whoever does not test with headway need not have it.
    async_fixture = pytest.fixture  # type: ignore[assignment]

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.testing.stepping import SteppingClock


@pytest.fixture
def headway_clock() -> "SteppingClock":
    """The clock of `headway` and `open_headway`: `await headway_clock.advance(seconds=3600)`."""
    from headway.testing.stepping import SteppingClock  # noqa: PLC0415

    return SteppingClock()


@pytest.fixture
def open_headway(
    tmp_path: Path, headway_clock: "SteppingClock"
) -> "Callable[[Headway], AbstractAsyncContextManager[Headway]]":
    """`async with open_headway(hw):` opens your own, on a new file, by `headway_clock`."""
    from headway.testing.harness import open_for_test  # noqa: PLC0415

    return lambda hw: open_for_test(hw, folder=tmp_path, clock=headway_clock)


@async_fixture
async def headway(open_headway: Any) -> "AsyncIterator[Headway]":
    """An open Headway without jobs: register them with `headway.job()`."""
    from headway.app import Headway  # noqa: PLC0415

    async with open_headway(Headway("sqlite:///:memory:")) as opened:
        yield opened
