"""The demo's script: start runs and tasks, refuse a run, cancel a run, approve an order."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.commands.task_commands import format_node_run, node_runs
from headway.cli.demo.demo_flows import BRANCH, ORDER, ORDER_PARAMS
from headway.cli.demo.display import PAGE_COUNT, DemoDisplay, TaskSnapshot
from headway.cli.demo.environment import DemoEnvironment, open_environment
from headway.cli.exit_codes import EXIT_INTERRUPTED
from headway.cli.output.printing import to_printable

ACCOUNTS: Final = ("ann", "bob", "cem", "dot", "eve")
TEXT: Final = "Make Headway"
TASKS: Final = {
    "text B": ("branch", {"text": TEXT, "action": "goB"}),
    "text C": ("branch", {"text": TEXT, "action": "goC"}),
    "order": ("order", ORDER_PARAMS),
}
CANCELED_ACCOUNT: Final = "bob"
CANCEL_AT_PAGE: Final = 3
REDRAW_S: Final = 0.15
TERMINAL_ACCOUNT_S: Final = 20.0
"""The duration of a run on a terminal, where a person watches it."""
PIPE_ACCOUNT_S: Final = 1.5
"""The duration of a run in a pipe."""


async def demo(*, seconds: float | None = None) -> int:
    """Run the demo: a server, a worker, five runs and three tasks.

    Parameters
    ----------
    seconds
        The approximate duration of each run. Default: 20 on a terminal, 1.5 in a pipe.
    """
    display = DemoDisplay()
    if seconds is None:
        seconds = TERMINAL_ACCOUNT_S if display.is_terminal else PIPE_ACCOUNT_S
    with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
        has_ended = False
        try:
            async with open_environment(Path(folder)) as environment:
                await _Scenario(environment, display, page_s=seconds / PAGE_COUNT).run()
                has_ended = True
                if display.is_terminal:
                    display.print_line(f"\n{_closing_message(environment)}")
                    await asyncio.Event().wait()
        except asyncio.CancelledError:  # Ctrl-C has stopped the server.
            # On a terminal that is the normal end. In a pipe the demo was interrupted.
            return 0 if has_ended or display.is_terminal else EXIT_INTERRUPTED
    return 0


def _closing_message(environment: DemoEnvironment) -> str:
    address = environment.address
    page = f"Open {address}/ui/ in a browser" if environment.has_page else f"Serving {address}"
    return f"{page}; Ctrl-C stops the demo and removes its files."


class _Scenario:
    def __init__(
        self, environment: DemoEnvironment, display: DemoDisplay, *, page_s: float
    ) -> None:
        self._environment = environment
        self._mirror_body = {
            "job": "mirror",
            "params": {"page_count": PAGE_COUNT, "page_s": page_s},
        }
        self._client: Client = environment.client
        self._display = display
        self._task_ids: dict[str, str] = {}
        self._run_ids: dict[str, str] = {}

    async def run(self) -> None:
        address, worker_url = self._environment.address, self._environment.worker_url
        page = f", the page is {address}/ui/" if self._environment.has_page else ""
        self._display.print_line(f"the server is {address}{page}; a worker is {worker_url}")
        await self._start_all()
        with self._display:
            await self._show_until_ended()
        await self._print_results()

    async def _start_all(self) -> None:
        for name, definition in (("branch", BRANCH), ("order", ORDER)):
            await self._client.put(f"/api/flows/{name}", definition)
        for name, (flow, params) in TASKS.items():
            task = await self._client.post(f"/api/flows/{flow}/tasks", {"params": params})
            self._task_ids[name] = task["id"]
        for name in ACCOUNTS:  # Saved keys stay on the page after their runs have ended.
            await self._client.put(f"/api/keys/{quote_segment(name)}", self._mirror_body)
        for name in ACCOUNTS:
            run = await self._client.post("/api/runs", {"key": name, **self._mirror_body})
            self._run_ids[name] = run["id"]
        try:
            await self._client.post("/api/runs", {"key": "ann", **self._mirror_body})
        except ApiError as error:
            self._display.print_line(f"a second start for ann is refused: {error}")

    async def _show_until_ended(self) -> None:
        """Show all runs and tasks until they end. Cancel one run, and have the order approved."""
        is_canceled = is_requested = False
        while True:  # Ends: every run and task of the demo ends.
            runs = [
                await self._client.get(f"/api/runs/{run_id}") for run_id in self._run_ids.values()
            ]
            tasks = [await self._read_task(name) for name in TASKS]
            order = tasks[-1].task
            self._display.show(runs, tasks)
            if all(run["ended_at"] for run in (*runs, *(task.run for task in tasks))):
                return
            if not is_requested and order["waits_for"] == "approval":
                is_requested = True
                await self._request_approval(order["id"])
            if not is_canceled and _is_due_for_cancel(runs):
                is_canceled = True
                reason = {"reason": "the demo shows a canceled run"}
                await self._client.post(
                    f"/api/runs/{self._run_ids[CANCELED_ACCOUNT]}/cancel", reason
                )
            await asyncio.sleep(REDRAW_S)

    async def _read_task(self, name: str) -> TaskSnapshot:
        task_id = quote_segment(self._task_ids[name])
        task = await self._client.get(f"/api/tasks/{task_id}")
        rows = [row async for row in node_runs(self._client, self._task_ids[name])]
        return TaskSnapshot(name, task, await self._client.get(f"/api/runs/{task_id}"), rows)

    async def _request_approval(self, task_id: str) -> None:
        """Ask the person at the terminal to approve the order. In a pipe, approve it."""
        if self._display.is_terminal:
            command = f"{_program_command()} task approve {task_id}"
            self._display.print_line(
                "\nThe order waits for your approval. In another terminal, in this folder, run:\n"
                f"  HEADWAY_URL={self._environment.address} {command}\n"
            )
            return
        self._display.print_line("order    approved by the demo, because this is not a terminal")
        await self._client.post(f"/api/tasks/{quote_segment(task_id)}/approve", {"answer": True})

    async def _print_results(self) -> None:
        for name in TASKS:
            snapshot = await self._read_task(name)
            self._display.print_line(f"\n{name}: {snapshot.run['status']}")
            for key, value in snapshot.task["shared"].items():
                self._display.print_line(f"  {key} = {to_printable(value)}")
            for row in snapshot.node_runs:
                self._display.print_line(f"  {format_node_run(row)}")
        state = await self._client.get("/api/state")
        self._display.print_line(
            f"\nbob's run was canceled on purpose. {len(self._run_ids)} runs, {len(TASKS)} tasks,"
            f" {state['seq']} events, nothing lost."
        )


def _is_due_for_cancel(runs: list[Any]) -> bool:
    progress = runs[ACCOUNTS.index(CANCELED_ACCOUNT)]["progress"] or {}
    return int(progress.get("downloaded", 0)) >= CANCEL_AT_PAGE


def _program_command() -> str:
    """Return the command that calls this installation of headway from the current folder."""
    python = Path(sys.executable)
    folder = Path.cwd()
    path = os.path.relpath(python, folder) if python.is_relative_to(folder) else str(python)
    return f"{path} -m headway"
