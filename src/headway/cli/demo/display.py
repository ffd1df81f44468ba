"""The demo's output: two live tables on a terminal, or a line for each change in a pipe."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headway.cli.output.printing import STYLES, to_printable

PAGE_COUNT: Final = 12
# A narrower terminal shows no progress bars.
BARS_WIDTH_MIN: Final = 60
STATE_STYLES: Final = STYLES | {"Waiting": "yellow"}


class TaskSnapshot(NamedTuple):
    """A task at one moment: its name, the task, its run, and its node runs so far."""

    name: str
    task: Any
    run: Any
    node_runs: Sequence[Any]

    @property
    def state_label(self) -> str:
        is_waiting = self.run["state"] == "Running" and self.task["waits_for"] is not None
        return "Waiting" if is_waiting else str(self.run["state"])

    @property
    def position(self) -> str:
        """The current node, and what it waits for or the progress that a worker reports."""
        if self.run["ended_at"] is not None:
            return ""
        if self.task["waits_for"]:
            return f"{self.task['node']}: waits for {self.task['waits_for']}"
        progress = self.run["progress"] or {}
        if progress.get("node") == self.task["node"]:
            counts = (
                f"{name} {progress[name]}" for name in progress if name not in ("node", "branch")
            )
            return f"{self.task['node']}: {', '.join(counts)}"
        return str(self.task["node"])

    @property
    def visited_nodes(self) -> list[str]:
        """The nodes that the task has visited, each once."""
        return list(dict.fromkeys(row["node"] for row in self.node_runs))


class DemoDisplay:
    """The demo's output, which is used in a `with` block.

    `show` updates the tables, and `print_line` prints a line.
    """

    def __init__(self) -> None:
        self.console = Console(markup=False, highlight=False, emoji=False)
        self.is_terminal = sys.stdout.isatty()
        self._last_lines: dict[str, str] = {}
        self._live = Live(console=self.console, auto_refresh=False) if self.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def print_line(self, line: str) -> None:
        """Print a line without wrapping it, so that it can be copied.

        On a terminal, the line appears above the tables.
        """
        if self._live is None:
            print(line, flush=True)
        else:
            self.console.print(line, soft_wrap=True)

    def show(self, runs: Sequence[Any], tasks: Sequence[TaskSnapshot]) -> None:
        if self._live is None:
            for line in self._changed_lines(runs, tasks):
                print(line, flush=True)
            return
        self._live.update(self.build_tables(runs, tasks), refresh=True)

    def build_tables(self, runs: Sequence[Any], tasks: Sequence[TaskSnapshot]) -> Group:
        return Group(
            _build_title("one run per account, three at a time"),
            self._build_runs_table(runs),
            Text(),
            _build_title("tasks of flows, executed by a worker"),
            self._build_tasks_table(tasks),
        )

    def _changed_lines(self, runs: Sequence[Any], tasks: Sequence[TaskSnapshot]) -> Iterator[str]:
        lines = {run["key"]: run["state"] for run in runs}
        lines |= {task.name: f"{task.state_label}  {task.position}".rstrip() for task in tasks}
        for name, line in lines.items():
            if self._last_lines.get(name) != line:
                self._last_lines[name] = line
                yield f"{name:8} {line}"

    def _build_runs_table(self, runs: Sequence[Any]) -> Table:
        table = _build_table(("account", "state", "progress"))
        for run in runs:
            done = (run["progress"] or {}).get("downloaded", 0)
            table.add_row(run["key"], _state_text(run["state"]), self._bar(done))
        return table

    def _bar(self, done: int) -> str:
        fraction = f"{done}/{PAGE_COUNT}"
        if self.console.width < BARS_WIDTH_MIN:
            return fraction
        full, empty = "#." if self.console.options.ascii_only else "█░"
        return f"{full * done}{empty * (PAGE_COUNT - done)} {fraction}"

    def _build_tasks_table(self, tasks: Sequence[TaskSnapshot]) -> Table:
        arrow = " > " if self.console.options.ascii_only else " → "
        table = _build_table(("task", "state", "node", "visited nodes"))
        for task in tasks:
            visited = Text(arrow.join(task.visited_nodes), overflow="fold")
            state = _state_text(task.state_label)
            table.add_row(task.name, state, to_printable(task.position), visited)
        return table


def _build_title(title: str) -> Text:
    """Return a title as a separate line.

    rich would wrap a table's own title to the width of the table.
    """
    return Text(title, style="italic")


def _build_table(headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading)
    return table


def _state_text(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, ""))
