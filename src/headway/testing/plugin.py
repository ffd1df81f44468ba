"""The pytest plugin: fixtures for an open Headway and for its clock.

The fixtures import heavy modules when a test uses them, because pytest loads this plugin in every
project.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

try:
    from pytest_asyncio import fixture as async_fixture
except ModuleNotFoundError:  # Optional: projects that do not use these fixtures may lack it.
    async_fixture = pytest.fixture  # type: ignore[assignment]

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.testing.stepping import SteppingClock


@pytest.fixture
def headway_clock() -> "SteppingClock":
    """Return the clock of the fixtures; move it with `await headway_clock.advance(3600)`."""
    from headway.testing.stepping import SteppingClock  # noqa: PLC0415

    return SteppingClock()


@pytest.fixture
def open_headway(
    tmp_path: Path, headway_clock: "SteppingClock"
) -> "Callable[[Headway], AbstractAsyncContextManager[Headway]]":
    """Return a function to open your Headway in a test: `async with open_headway(hw):`.

    The opened Headway uses a new SQLite file and `headway_clock`.
    """
    from headway.testing.harness import open_for_test  # noqa: PLC0415

    return lambda hw: open_for_test(hw, folder=tmp_path, clock=headway_clock)


@async_fixture
async def headway(open_headway: Any) -> "AsyncIterator[Headway]":
    """Provide an open Headway without jobs. Register jobs with `headway.job()`."""
    from headway.app import Headway  # noqa: PLC0415

    async with open_headway(Headway("sqlite:///:memory:")) as opened:
        yield opened
