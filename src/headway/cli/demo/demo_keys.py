"""What the demo shows: two live tables on a terminal, and in a pipe a line for each change."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headway.cli.output.printing import STYLES, to_printable

PAGE_COUNT: Final = 12
# Narrower than this, there are no bars.
BARS_WIDTH_MIN: Final = 60
STATE_STYLES: Final = STYLES | {"Waiting": "yellow"}


class TaskSnapshot(NamedTuple):
    """A task as it is shown: its name, the task itself, and its node runs so far."""

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
        """At which node it is, and what it waits for, or what a worker tells of it."""
        if self.run["ended_at"] is not None:
            return ""
        if self.task["waits_for"]:
            return f"{self.task['node']}: waits for {self.task['waits_for']}"
        figures = self.run["progress"] or {}
        if figures.get("node") == self.task["node"]:
            told = (f"{name} {figures[name]}" for name in figures if name not in ("node", "branch"))
            return f"{self.task['node']}: {', '.join(told)}"
        return str(self.task["node"])

    @property
    def visited_nodes(self) -> list[str]:
        """The nodes that it has been to, each once."""
        return list(dict.fromkeys(row["node"] for row in self.node_runs))


class DemoDisplay:
    """`with` it; `show` what there is as often as you like; `say` what is worth a line."""

    def __init__(self) -> None:
        self.console = Console(markup=False, highlight=False, emoji=False)
        self.is_terminal = sys.stdout.isatty()
        self._hint = ""
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
        if self._live is None:
            print(line, flush=True)
        else:
            self.console.print(line)

    def set_hint(self, words: str) -> None:
        """Stands below the tables until there is another."""
        self._hint = words

    def show(self, runs: Sequence[Any], tasks: Sequence[TaskSnapshot]) -> None:
        if self._live is None:
            for line in self._changed_lines(runs, tasks):
                print(line, flush=True)
            return
        self._live.update(self.build_tables(runs, tasks), refresh=True)

    def build_tables(self, runs: Sequence[Any], tasks: Sequence[TaskSnapshot]) -> Group:
        return Group(
            self._build_runs_table(runs), Text(), self._build_tasks_table(tasks), Text(self._hint)
        )

    def _changed_lines(self, runs: Sequence[Any], tasks: Sequence[TaskSnapshot]) -> Iterator[str]:
        said = {run["key"]: run["state"] for run in runs}
        said |= {one.name: f"{one.state_label}  {one.position}".rstrip() for one in tasks}
        for name, words in said.items():
            if self._last_lines.get(name) != words:
                self._last_lines[name] = words
                yield f"{name:8} {words}"

    def _build_runs_table(self, runs: Sequence[Any]) -> Table:
        table = _build_table(
            "one run per account, three at a time", ("account", "state", "progress")
        )
        for run in runs:
            done = (run["progress"] or {}).get("downloaded", 0)
            table.add_row(run["key"], _state_text(run["state"]), self._bar(done))
        return table

    def _bar(self, done: int) -> str:
        figures = f"{done}/{PAGE_COUNT}"
        if self.console.width < BARS_WIDTH_MIN:
            return figures
        full, empty = "#." if self.console.options.ascii_only else "█░"
        return f"{full * done}{empty * (PAGE_COUNT - done)} {figures}"

    def _build_tasks_table(self, tasks: Sequence[TaskSnapshot]) -> Table:
        arrow = " > " if self.console.options.ascii_only else " → "
        table = _build_table("tasks of flows, done by a worker", ("task", "state", "at", "been to"))
        for one in tasks:
            been = Text(arrow.join(one.visited_nodes), overflow="fold")
            table.add_row(one.name, _state_text(one.state_label), to_printable(one.position), been)
        return table


def _build_table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading)
    return table


def _state_text(word: str) -> Text:
    return Text(word, style=STATE_STYLES.get(word, ""))
