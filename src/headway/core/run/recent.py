"""Decide which keys are recent, so that every view of the board shows the same rows.

A key is recent if its newest run that was not refused is among the newest of all keys, and began
within the last part of the event stream. Both limits follow from numbers that are the same for a
snapshot and for a page that follows the events: the `seq` of each run and of the stream. A page
that has followed the stream for a week therefore shows the same rows as a page that was just opened
(R1.10). Keys leave in the order of their newest runs, and come back only with another run.
"""

from typing import Final, NamedTuple

from headway.core.ids import Key

KEY_COUNT_MAX: Final = 500
EVENT_COUNT_MAX: Final = 200_000
"""How many events ago a recent key's newest run may have been submitted.

This limits the rows that a snapshot reads if a few busy keys have made nearly all runs.
"""
EVENT_STEP: Final = 20_000
"""The `seq` limit moves in steps of this size, so pages need not check it at every event."""


class RecentKey(NamedTuple):
    key: Key
    seq: int
    """The `seq` of the key's newest run that was not refused."""


def recent_after_seq(seq: int) -> int:
    """Return the `seq` above which runs are recent when the stream has reached `seq`."""
    return max(0, seq - seq % EVENT_STEP - EVENT_COUNT_MAX)
