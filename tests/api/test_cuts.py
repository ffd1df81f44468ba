"""Cut anywhere, restarted, pruned: every event once and in order, or one resync (I13, I14)."""

import pytest

from tests.api.conftest import served
from tests.api.cuts import cut

pytestmark = pytest.mark.backend("sqlite")


async def test_i13_i14_fifty_cuts_restarts_and_retention_lose_and_repeat_nothing(url: str) -> None:
    seen = await cut(lambda: served(url), cut_count=50, seed=11)
    assert seen.faults == []
    assert (seen.cut_count, seen.event_count > 50, seen.resync_count > 0) == (50, True, True)
