"""The clock of flow tasks follows the database and ignores local clock jumps (I18)."""

import pytest

from headway.core.ids import SECOND_US, Instant
from headway.services.flow.flow_clock import FlowClock
from headway.testing.fake_clock import NOON

HOUR_S = 3_600.0


class TwoClocks:
    """A wall clock that can jump, and a monotonic clock."""

    def __init__(self) -> None:
        self.wall = NOON
        self.elapsed_s = 50.0

    def now(self) -> Instant:
        return self.wall

    def monotonic_s(self) -> float:
        return self.elapsed_s

    def pass_s(self, seconds: float) -> None:
        self.elapsed_s += seconds
        self.jump_s(seconds)

    def jump_s(self, seconds: float) -> None:
        self.wall = Instant(self.wall + round(seconds * SECOND_US))

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)

    def timeout(self, seconds: float) -> object:
        raise AssertionError(seconds)


@pytest.mark.proves("I18")
def test_a_local_clock_jump_does_not_move_the_flow_clock() -> None:
    clocks = TwoClocks()
    clock = FlowClock(clocks)  # type: ignore[arg-type]
    database_now = Instant(NOON + 7 * SECOND_US)
    clock.sync(database_now)
    clocks.pass_s(2)
    clocks.jump_s(HOUR_S)
    assert clock.now() == database_now + 2 * SECOND_US
    clocks.jump_s(-2 * HOUR_S)
    clocks.pass_s(1)
    assert clock.now() == database_now + 3 * SECOND_US


@pytest.mark.proves("I18")
def test_the_flow_clock_follows_the_database_forward_and_back() -> None:
    clocks = TwoClocks()
    clock = FlowClock(clocks)  # type: ignore[arg-type]
    clock.sync(Instant(NOON - 20 * SECOND_US))
    assert clock.now() == NOON - 20 * SECOND_US
    clock.sync(Instant(NOON + 3_600 * SECOND_US))
    assert clock.now() == NOON + 3_600 * SECOND_US
    clock.sync(Instant(NOON))  # The database clock was corrected.
    clocks.pass_s(1)
    assert clock.now() == NOON + SECOND_US


@pytest.mark.proves("I18")
def test_a_delayed_sync_does_not_turn_the_flow_clock_back() -> None:
    clocks = TwoClocks()
    clock = FlowClock(clocks)  # type: ignore[arg-type]
    clock.sync(NOON)
    clocks.pass_s(1)
    clock.sync(Instant(NOON + SECOND_US // 2))
    assert clock.now() == NOON + SECOND_US
