"""Suggest existing names for an unknown name."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

SUGGESTION_COUNT_MAX: Final = 10


def suggest_names(unknown: str, names: Iterable[str]) -> str:
    """Return up to ten of `names` as text, the most similar to `unknown` first."""
    ranked = sorted(sorted(names), key=lambda name: _similarity(unknown, name), reverse=True)
    more_count = len(ranked) - SUGGESTION_COUNT_MAX
    more = f" and {more_count:,} more" if more_count > 0 else ""
    return (", ".join(ranked[:SUGGESTION_COUNT_MAX]) or "none") + more


def _similarity(unknown: str, name: str) -> float:
    # `quick_ratio` ignores the order of letters: `tpyo` equals `typo`, and long names stay fast.
    return SequenceMatcher(None, unknown, name).quick_ratio()
