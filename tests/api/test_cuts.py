"""Through cuts, restarts, kills and pruning, events arrive once and in order, or as a resync."""

from pathlib import Path

import pytest

from tests.api.cuts import cut

pytestmark = pytest.mark.backend("sqlite")


@pytest.mark.proves("I13", "I14")
async def test_no_event_is_lost_or_repeated_by_fifty_cuts_kills_and_pruning(
    url: str, tmp_path: Path
) -> None:
    seen = await cut(url, tmp_path, cut_count=50, seed=11)
    assert seen.errors == []
    assert (seen.cut_count, seen.event_count > 50) == (50, True)
    assert (seen.resync_count > 0, seen.kill_count > 1) == (True, True)
