"""The checks of the page's measurements; the measurement itself is not a test."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.bench.browser.feed import Feed, application
from tests.bench.browser.measure import QUICK, Seen
from tests.bench.browser.report import write_page_part
from tests.bench.machine import this_machine

pytestmark = pytest.mark.backend("sqlite")

GOOD = Seen(
    **asdict(QUICK),
    input_count=100,
    p50_ms=20,
    p95_ms=199,
    worst_ms=900,
    shown_rate=1_000,
    heap_before=100,
    heap_after=120,
    resident_before=100,
    resident_after=120,
)


@pytest.mark.parametrize(
    ("change", "miss"),
    [
        ({}, ""),
        ({"p95_ms": 200}, "p95"),
        ({"heap_after": 121}, "heap"),
        ({"resident_after": 121}, "grew"),
    ],
)
def test_a_slow_page_or_a_growing_heap_is_reported_as_a_miss(
    change: dict[str, int], miss: str
) -> None:
    misses = replace(GOOD, **change).misses
    assert [miss in text for text in misses] == ([True] if miss else [])


def test_the_feed_matches_the_schema_of_the_server() -> None:
    """Otherwise the page would receive documents that no server sends.

    Each document is checked when it is created.
    """
    feed = Feed(run_count=30, changes_per_s=10)
    application(feed)
    before = feed.state()["seq"]
    events = [event for _ in range(30) for event in feed.changes()]
    assert [event["seq"] for event in events] == [before + 1 + at for at in range(len(events))]
    assert {event["type"] for event in events} == {"run_progress", "run_state_changed"}
    state = feed.state()
    assert len(state["runs"]) == 30
    (lane,) = state["lanes"]
    # A few run, and each end lets the next in the queue start.
    assert (lane["held_count"], lane["queued_count"]) == (2, 28)
    ranks = [run["ready_seq"] for run in state["runs"] if run["status"] == "queued"]
    assert ranks == sorted(ranks)


def test_the_results_are_written_between_the_markers_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- page -->\n<!-- end of page -->\nb\n")
    write_page_part(GOOD, this_machine(), "the command", path)
    written = path.read_text()
    assert "199 ms" in written
    assert written.startswith("a\n")
    assert written.endswith("b\n")
