"""Fixtures: controllable work, a manual clock, and lanes that use it."""

from collections.abc import AsyncIterator

import pytest

from headway.lanes import Lanes
from tests.lanes.scenes import ManualClock, WorkStage


@pytest.fixture
async def stage() -> AsyncIterator[WorkStage]:
    stage = WorkStage()
    yield stage
    await stage.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def lanes(clock: ManualClock) -> Lanes:
    return Lanes(clock=clock, grace_s=0.01)
