"""docs/benchmarks.md, whose parts are measured and replaced separately."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from tests.bench.places import ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
CHART: Final = ROOT / "docs" / "benchmarks.svg"

Part = Literal["engine", "flows", "page", "server", "steering", "store"]


def replace_part(part: Part, lines: Sequence[str], *, path: Path = PAGE) -> None:
    """Replace a part of the page by `lines`; the rest is not changed."""
    begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
    before, begun, rest = path.read_text(encoding="utf-8").partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{path} has no part between {begin} and {end}; put the two lines back")
    text = "\n".join([f"{before}{begin}", "", *lines, f"{end}{after}"])
    path.write_text(text, encoding="utf-8")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * 2 + ["---:"] * (len(headings) - 2)
    return [_line(headings), _line(rule), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
