"""The results as a picture: bars, drawn as SVG by hand, for light and dark pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isinf
from typing import Final

from tests.bench.engine.contestants import OF_CHILDREN, OF_WORKERS
from tests.bench.engine.order import Work
from tests.bench.engine.results import UNITS, Measure, Result

COLUMN_WIDTH: Final = 520
MARGIN: Final = 24
LABEL_WIDTH: Final = 224
VALUE_WIDTH: Final = 84
BAR_WIDTH: Final = COLUMN_WIDTH - LABEL_WIDTH - VALUE_WIDTH
ROW_HEIGHT: Final = 24
BAR_HEIGHT: Final = 14
HEAD_HEIGHT: Final = 56
GAP: Final = 22
STYLE: Final = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2937; }
.card { fill: #ffffff; stroke: #d8dee6; }
.title { font-size: 15px; font-weight: 600; }
.note { font-size: 12px; fill: #5b6675; }
.ours { font-weight: 600; }
.value { font-variant-numeric: tabular-nums; }
rect.bar { fill: #b4bfcc; }
rect.bar.ours { fill: #2563eb; }
line.spread { stroke: #1f2937; stroke-opacity: 0.55; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .card { fill: #0d1117; stroke: #30363d; }
  .note { fill: #9aa5b1; }
  rect.bar { fill: #57606a; }
  rect.bar.ours { fill: #58a6ff; }
  line.spread { stroke: #e6edf3; }
}"""
# For each panel: its heading, the measure, and which direction is better.
PANELS: Final[Mapping[Work, tuple[str, Measure, str]]] = {
    Work.DRAIN: ("Jobs that do nothing", Measure.RATE, "jobs per second: more is better"),
    Work.PICKUP: ("From the call to the job's first line", Measure.P50, "p50: less is better"),
    Work.KEYED: (
        "1,000 keys, one at a time per key, in order",
        Measure.RATE,
        "jobs of 1 ms per second, 50 at once: more is better",
    ),
    Work.FLOWS: (
        "Flows of ten steps, each durable",
        Measure.STEP_RATE,
        "steps per second: more is better",
    ),
    Work.RECOVERY: (
        "100 jobs of a killed process run again",
        Measure.UNTIL,
        "seconds since the kill: less is better",
    ),
}
COLUMNS: Final = ((Work.DRAIN, Work.KEYED), (Work.PICKUP, Work.RECOVERY, Work.FLOWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    label: str
    value: float
    low: float
    high: float
    value_text: str
    is_ours: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    title: str
    note: str
    bars: tuple[Bar, ...]

    @property
    def height(self) -> int:
        return HEAD_HEIGHT + len(self.bars) * ROW_HEIGHT


def chart(results: Sequence[Result]) -> str:
    """Return an SVG with a panel for each race, or an empty text if none was run."""
    columns = [
        [panel for work in column if (panel := _panel(work, results)).bars] for column in COLUMNS
    ]
    columns = [column for column in columns if column]
    return _drawn(columns) if columns else ""


def _panel(work: Work, results: Sequence[Result]) -> Panel:
    title, measure, note = PANELS[work]
    bars = tuple(
        _bar(result, measure)
        for result in results
        # Measures that only headway has are in the table.
        if result.work is work and result.entry.detail not in (OF_WORKERS, OF_CHILDREN)
    )
    return Panel(title=title, note=note, bars=bars)


def _bar(result: Result, measure: Measure) -> Bar:
    entry, series = result.entry, result.series(measure)
    form, unit = UNITS[measure]
    label = f"{entry.contestant.title} · {entry.contestant.store_title}"
    return Bar(
        label=f"{label}, apart" if entry.order.is_apart else label,
        value=series.median,
        low=series.low,
        high=series.high,
        value_text="not in time" if isinf(series.median) else f"{series.median:{form}}{unit}",
        is_ours=entry.contestant.is_ours,
    )


def _drawn(columns: Sequence[Sequence[Panel]]) -> str:
    heights = [sum(panel.height + GAP for panel in column) - GAP for column in columns]
    height = max(heights) + 2 * MARGIN
    width = len(columns) * (COLUMN_WIDTH + MARGIN) + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img">'
    )
    lines = [
        head,
        "<title>headway beside other systems</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
    ]
    for place, column in enumerate(columns):
        top = MARGIN
        for panel in column:
            lines += _panel_lines(panel, left=MARGIN + place * (COLUMN_WIDTH + MARGIN), top=top)
            top += panel.height + GAP
    return "\n".join([*lines, "</svg>", ""])


def _panel_lines(panel: Panel, *, left: int, top: int) -> Iterator[str]:
    yield f'<text class="title" x="{left}" y="{top + 16}">{escape(panel.title)}</text>'
    yield f'<text class="note" x="{left}" y="{top + 36}">{escape(panel.note)}</text>'
    most = max((bar.high for bar in panel.bars if not isinf(bar.high)), default=1.0)
    for row, bar in enumerate(panel.bars):
        yield from _bar_lines(bar, left=left, top=top + HEAD_HEIGHT + row * ROW_HEIGHT, most=most)


def _bar_lines(bar: Bar, *, left: int, top: int, most: float) -> Iterator[str]:
    kind = " ours" if bar.is_ours else ""
    base, middle = top + 12, top + BAR_HEIGHT / 2
    start = left + LABEL_WIDTH
    yield f'<text class="label{kind}" x="{left}" y="{base}">{escape(bar.label)}</text>'
    end = float(start)
    if not isinf(bar.value):
        drawn = max(2.0, bar.value / most * BAR_WIDTH)
        high = start + min(bar.high / most, 1.0) * BAR_WIDTH
        yield (
            f'<rect class="bar{kind}" x="{start}" y="{top}" width="{drawn:.1f}" '
            f'height="{BAR_HEIGHT}" rx="2"/>'
        )
        if bar.high > bar.low:
            low = start + bar.low / most * BAR_WIDTH
            yield (
                f'<line class="spread" x1="{low:.1f}" y1="{middle:g}" '
                f'x2="{high:.1f}" y2="{middle:g}"/>'
            )
        end = max(start + drawn, high)
    yield (
        f'<text class="value{kind}" x="{end + 8:.1f}" y="{base}">{escape(bar.value_text)}</text>'
    )
