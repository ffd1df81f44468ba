"""One run on a terminal: state, progress, obstacle, open questions and latest events."""

from collections import deque
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headway.cli.output.event_text import clock_time, describe_event_with_label
from headway.cli.output.printing import STYLES, format_age, shorten, to_printable

LINE_COUNT_MAX: Final = 8
BAR_WIDTH: Final = 32
TOTAL_NAMES: Final = ("of", "total")
# Events that the screen shows in another way, or that are too frequent for a line each.
UNLISTED_EVENT_TYPES: Final = frozenset({"run_progress", "run_checkpoint", "permission_request"})
MOVING_GATES: Final = frozenset({"running", "ended"})


class RunScreen:
    """A view of a run that rich redraws repeatedly, from the data that was set last."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.progress = run["progress"]
        self.explanation: Any = None
        self.interrupts: list[Any] = []
        self._lines: deque[Text] = deque(maxlen=LINE_COUNT_MAX)

    def add_event(self, event: dict[str, Any]) -> None:
        if event["type"] == "run_progress":
            self.progress = event["payload"]
        elif event["type"] == "run_state_changed":
            self.run = {**self.run, "state": event["state"]}
        if event["type"] not in UNLISTED_EVENT_TYPES:
            at = clock_time(event["at"]) if "at" in event else " " * 8
            for description in describe_event_with_label(event)[-LINE_COUNT_MAX:]:
                line = Text(f"  {at}  {description}", overflow="ellipsis", no_wrap=True)
                self._lines.append(line)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._header()
        if self.progress is not None:
            yield self._progress()
        is_active = self.run["ended_at"] is None
        if is_active and self.explanation and self.explanation["gate"] not in MOVING_GATES:
            yield Text(to_printable(self.explanation["sentence"]), style="yellow")
            yield Text(to_printable(self.explanation["remedy"]), style="dim")
        for interrupt in self.interrupts if is_active else ():
            yield Text(f"asks: {shorten(interrupt['question'])}", style="bold")
            yield Text(f"  headway run resume {self.run['id']} --approve | --deny", style="dim")
        yield from self._lines

    def _header(self) -> Text:
        run = self.run
        age = format_age(run["started_at"] or run["queued_at"], until=run["ended_at"])
        header = Text(run["state"], style=STYLES.get(run["state"], ""))
        header.append(f"  {age}", style="dim")
        key = "" if run["key"] == run["id"] else f" for {to_printable(run['key'])}"
        header.append(
            f"  {to_printable(run['job'])}{key} in lane {to_printable(run['lane'])}", style="bold"
        )
        if run["attempt"] > 1:
            header.append(f"  attempt {run['attempt']}")
        header.append(f"  {run['id']}", style="dim")
        return header

    def _progress(self) -> Table | Text:
        numbers = _numeric_progress(self.progress)
        if numbers is None:
            return Text(shorten(self.progress))
        total = next((numbers[name] for name in TOTAL_NAMES if name in numbers), None)
        counts = {name: value for name, value in numbers.items() if name not in TOTAL_NAMES}
        text = "  ".join(f"{to_printable(name)} {value:g}" for name, value in counts.items())
        if total is None or total <= 0 or not counts:
            return Text(text)
        done = min(next(iter(counts.values())), total)
        line = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=total, completed=max(0, done), width=BAR_WIDTH)
        line.add_row(bar, f"{done:g}/{total:g}", text)
        return line


def _numeric_progress(progress: Any) -> dict[str, float] | None:
    """Return the progress if it consists of names and numbers, else None."""
    if not isinstance(progress, dict) or not progress:
        return None
    are_numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool)
        for value in progress.values()
    )
    return dict(progress) if are_numbers else None
