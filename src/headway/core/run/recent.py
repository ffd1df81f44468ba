"""Which keys count as recent: the ones that every view of the board shows.

A key is recent if its newest run that was not refused is among the newest of all keys, and began
within the last part of the event stream. Both limits follow from numbers that a snapshot and a page
that folds events have in common (run numbers and the stream's number). So a page that has followed
the stream for a week and a page that was opened just now show the same rows (R1.10). Keys leave in
the order of their newest runs, and come back only with another run.
"""

from typing import Final, NamedTuple

from headway.core.ids import Key

KEY_COUNT_MAX: Final = 500
EVENT_COUNT_MAX: Final = 200_000
"""How far back in the stream a newest run may have been submitted.

It bounds what a snapshot reads where a few busy keys have made nearly all runs.
"""
EVENT_STEP: Final = 20_000
"""The far end moves in steps, so that pages need not check it with every event."""


class RecentKey(NamedTuple):
    key: Key
    seq: int
    """Of its newest run that was not refused."""


def recent_after_seq(seq: int) -> int:
    """Return the number after which runs are recent when the stream has reached `seq`."""
    return max(0, seq - seq % EVENT_STEP - EVENT_COUNT_MAX)
