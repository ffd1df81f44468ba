"""A stage, a clock, and lanes that go by it."""

from collections.abc import AsyncIterator

import pytest

from headway.lanes import Lanes
from tests.lanes.scenes import Seconds, Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    await stage.close()


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def lanes(clock: Seconds) -> Lanes:
    return Lanes(clock=clock, grace_s=0.01)
