"""Measure how soon the board reacts to input, and its memory use, while everything changes."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from playwright.sync_api import Browser, Page, sync_playwright

from tests.bench.browser.feed import LASTING
from tests.bench.browser.processes import resident_byte_count
from tests.bench.places import ROOT
from tests.servers.programs import chromium_program

NAME: Final = "page"
STEP_COUNT: Final = 1
LATENCY_MS_MAX: Final = 200.0
GROWTH_MAX: Final = 1.2
"""The allowed ratio of the memory at the end to the memory after settling."""
PAUSE_MS: Final = 250
SETTLED_SHARE: Final = 0.2
"""The share of the time in which the page may still grow: its lists of ended runs fill up."""

# From the event, as the browser stamps it, to the frame that shows its effect.
WATCH_INPUT: Final = """() => {
  window.latencies = [];
  for (const kind of ["keydown", "click", "wheel"]) {
    addEventListener(kind, ({ timeStamp }) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => window.latencies.push(performance.now() - timeStamp);
        port2.postMessage(null);
      });
    }, { capture: true, passive: true });
  }
}"""


@dataclass(frozen=True, slots=True)
class Scale:
    duration_s: float
    run_count: int
    changes_per_s: int


FULL: Final = Scale(300.0, 10_000, 1_000)
QUICK: Final = Scale(60.0, 10_000, 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The measurements of the page."""

    duration_s: float
    run_count: int
    changes_per_s: int
    input_count: int
    p50_ms: float
    p95_ms: float
    worst_ms: float
    shown_rate: float
    """Events that the page has applied per second."""
    heap_before: int
    heap_after: int
    """Bytes of the tab's own heap, after a garbage collection."""
    resident_before: int
    resident_after: int
    """Bytes of all processes that render or compute for it, including the shared worker."""

    @property
    def misses(self) -> list[str]:
        misses = []
        if self.p95_ms >= LATENCY_MS_MAX:
            misses.append(f"page: p95 of input is {self.p95_ms:.0f} ms, not {LATENCY_MS_MAX:.0f}")
        if self.heap_after > self.heap_before * GROWTH_MAX:
            misses.append(f"page: its heap grew to {self.heap_after / self.heap_before:.0%}")
        if self.resident_after > self.resident_before * GROWTH_MAX:
            misses.append(f"page: it grew to {self.resident_after / self.resident_before:.0%}")
        return misses

    def as_json(self) -> dict[str, Any]:
        return {"page": "board", **asdict(self)}


def measure_page(scale: Scale, step: Callable[[str], None]) -> Seen:
    step(f"page: {scale.run_count:,} runs, {scale.changes_per_s:,} changes a second")
    with _fed(scale) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_program(), args=["--no-sandbox"]
        )
        try:
            return _look(browser, address, scale)
        finally:
            browser.close()


@contextmanager
def _fed(scale: Scale) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.bench.browser.feed"]
    arguments = [str(scale.run_count), str(scale.changes_per_s)]
    feeding = subprocess.Popen([*command, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert feeding.stdout is not None
    try:
        address = feeding.stdout.readline().strip()
        assert address, "the feed did not start"
        yield address
    finally:
        feeding.terminate()
        feeding.wait()


def _look(browser: Browser, address: str, scale: Scale) -> Seen:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/ui/#/board")
    page.get_by_test_id("row").first.wait_for(timeout=60_000)
    page.evaluate(WATCH_INPUT)
    begun_s = time.monotonic()
    ends_s = begun_s + scale.duration_s
    _use(page, until_s=begun_s + scale.duration_s * SETTLED_SHARE)
    heap_before, resident_before = _heap(page), resident_byte_count(os.getpid())
    told_before, looked_s = _told_count(page), time.monotonic()
    _use(page, until_s=ends_s)
    shown = (_told_count(page) - told_before) / (time.monotonic() - looked_s)
    latencies = sorted(page.evaluate("window.latencies"))
    return Seen(
        **asdict(scale),
        input_count=len(latencies),
        p50_ms=_percentile(latencies, 0.5),
        p95_ms=_percentile(latencies, 0.95),
        worst_ms=latencies[-1],
        shown_rate=shown,
        heap_before=heap_before,
        heap_after=_heap(page),
        resident_before=resident_before,
        resident_after=resident_byte_count(os.getpid()),
    )


def _use(page: Page, *, until_s: float) -> None:
    """Type, open a row and close it, scroll down and up: the most common actions."""
    search = page.get_by_label("Find a key")
    opener = page.get_by_test_id("row").get_by_role("button", name="Parameters of").first
    hands: list[Callable[[], None]] = [
        lambda: search.press_sequentially("key-0"),
        lambda: search.press_sequentially("12"),
        opener.click,
        opener.click,
        lambda: search.fill(""),
        lambda: page.mouse.wheel(0, 3_000),
        lambda: page.mouse.wheel(0, -3_000),
    ]
    turn = 0
    while time.monotonic() < until_s:
        hands[turn % len(hands)]()
        turn += 1
        page.wait_for_timeout(PAUSE_MS)
    search.fill("")
    page.evaluate("scrollTo(0, 0)")


def _told_count(page: Page) -> float:
    """Return how many changes the page has applied, from the row of the run that never ends."""
    figures = page.get_by_label(LASTING, exact=True).get_by_test_id("figures")
    shown = figures.get_by_text("told", exact=True).locator("xpath=following-sibling::dd")
    return float(shown.inner_text().replace(",", ""))


def _heap(page: Page) -> int:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: int = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)]
