"""What somebody may have meant who has named something that is not there."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

NAMED_COUNT_MAX: Final = 10


def nearest(word: str, names: Iterable[str]) -> str:
    """A few names that there are, in words: those first that were most probably meant."""
    known = sorted(sorted(names), key=lambda name: _likeness(word, name), reverse=True)
    more_count = len(known) - NAMED_COUNT_MAX
    more = f" and {more_count:,} more" if more_count > 0 else ""
    return (", ".join(known[:NAMED_COUNT_MAX]) or "none") + more


def _likeness(word: str, name: str) -> float:
    # By their letters, in whatever order: `tpyo` is `typo`, and long words take no longer.
    return SequenceMatcher(None, word, name).quick_ratio()
