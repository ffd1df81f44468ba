"""What somebody may have meant who has named something that is not there."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

SUGGESTION_COUNT_MAX: Final = 10


def suggest_names(word: str, names: Iterable[str]) -> str:
    """A few names that there are, in words: those first that were most probably meant."""
    known = sorted(sorted(names), key=lambda name: _similarity(word, name), reverse=True)
    more_count = len(known) - SUGGESTION_COUNT_MAX
    more = f" and {more_count:,} more" if more_count > 0 else ""
    return (", ".join(known[:SUGGESTION_COUNT_MAX]) or "none") + more


def _similarity(word: str, name: str) -> float:
    # By their letters, in whatever order: `tpyo` is `typo`, and long words take no longer.
    return SequenceMatcher(None, word, name).quick_ratio()
