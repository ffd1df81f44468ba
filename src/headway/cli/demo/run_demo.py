"""The story of the demo: what is started, refused, cancelled and approved, and what comes of it."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.commands.task_commands import format_node_run, node_runs
from headway.cli.demo.demo_flows import BRANCH, ORDER, ORDER_PARAMS
from headway.cli.demo.demo_keys import PAGE_COUNT, DemoDisplay, TaskSnapshot
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
PIPE_ACCOUNT_S: Final = 1.5
"""How long an account takes, with a person to watch it and without."""


async def demo(*, seconds: float | None = None) -> int:
    """Watch runs and flows at work: a server, a worker, five accounts, three tasks.

    On a terminal it asks you to approve an order, and serves its page until Ctrl-C; in a pipe it
    approves the order itself, and ends.

    Parameters
    ----------
    seconds
        How long each account takes, about. Without it, 20 on a terminal, so that there is something
        to watch, and hardly any in a pipe.
    """
    board = DemoDisplay()
    if seconds is None:
        seconds = TERMINAL_ACCOUNT_S if board.is_terminal else PIPE_ACCOUNT_S
    with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
        has_ended = False
        try:
            async with open_environment(Path(folder)) as site:
                await _Scenario(site, board, page_s=seconds / PAGE_COUNT).run()
                has_ended = True
                if board.is_terminal:
                    board.print_line(
                        f"\n{_closing_message(site)}; Ctrl-C ends it, and leaves nothing behind."
                    )
                    await asyncio.Event().wait()
        except asyncio.CancelledError:  # Ctrl-C has ended the server.
            # That is how a person leaves it; in a pipe it had not come to its end.
            return 0 if has_ended or board.is_terminal else EXIT_INTERRUPTED
    return 0


def _closing_message(site: DemoEnvironment) -> str:
    return f"Look around at {site.address}/ui/" if site.has_page else f"It serves {site.address}"


class _Scenario:
    def __init__(self, site: DemoEnvironment, board: DemoDisplay, *, page_s: float) -> None:
        self._environment = site
        self._mirror_body = {
            "job": "mirror",
            "params": {"page_count": PAGE_COUNT, "page_s": page_s},
        }
        self._client: Client = site.client
        self._display = board
        self._task_ids: dict[str, str] = {}
        self._run_ids: dict[str, str] = {}

    async def run(self) -> None:
        page = (
            f", the page is {self._environment.address}/ui/" if self._environment.has_page else ""
        )
        self._display.print_line(
            f"the server is {self._environment.address}{page}; a worker is {self._environment.worker_url}"
        )
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
        for name in ACCOUNTS:  # Saved, they stay on the board when they are over.
            await self._client.put(f"/api/keys/{quote_segment(name)}", self._mirror_body)
        for name in ACCOUNTS:
            run = await self._client.post("/api/runs", {"key": name, **self._mirror_body})
            self._run_ids[name] = run["id"]
        try:
            await self._client.post("/api/runs", {"key": "ann", **self._mirror_body})
        except ApiError as refusal:
            self._display.print_line(f"a second start for ann is refused: {refusal}")

    async def _show_until_ended(self) -> None:
        """Show it until all of it is over; cancel one run, and see that the order is approved."""
        is_cancelled = is_asked = False
        while True:  # All that was started has an end.
            runs = [await self._client.get(f"/api/runs/{one}") for one in self._run_ids.values()]
            tasks = [await self._read_task(name) for name in TASKS]
            order = tasks[-1].task
            if is_asked and order["waits_for"] is None:
                self._display.set_hint("")
            self._display.show(runs, tasks)
            if all(one["ended_at"] for one in (*runs, *(shown.run for shown in tasks))):
                return
            if not is_asked and order["waits_for"] == "approval":
                is_asked = True
                await self._request_approval(order["id"])
            if not is_cancelled and _is_due_for_cancel(runs):
                is_cancelled = True
                reason = {"reason": "to show what that looks like"}
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
        """A person answers; in a pipe the demo itself does."""
        if self._display.is_terminal:
            self._display.set_hint(
                "\nThe order waits for you. In another terminal, in this folder:\n"
                f"  HEADWAY_URL={self._environment.address} {_program_command()} task approve {task_id}"
            )
            return
        self._display.print_line(
            "order    is approved by the demo: in a pipe there is nobody to ask"
        )
        await self._client.post(f"/api/tasks/{quote_segment(task_id)}/approve", {"answer": True})

    async def _print_results(self) -> None:
        for name in TASKS:
            shown = await self._read_task(name)
            self._display.print_line(f"\n{name}: {shown.run['status']}")
            for key, value in shown.task["shared"].items():
                self._display.print_line(f"  {key} = {to_printable(value)}")
            for row in shown.node_runs:
                self._display.print_line(f"  {format_node_run(row)}")
        state = await self._client.get("/api/state")
        self._display.print_line(
            f"\nbob's run was cancelled on purpose. {len(self._run_ids)} runs, {len(TASKS)} tasks,"
            f" {state['seq']} events, nothing lost."
        )


def _is_due_for_cancel(runs: list[Any]) -> bool:
    progress = runs[ACCOUNTS.index(CANCELED_ACCOUNT)]["progress"] or {}
    return int(progress.get("downloaded", 0)) >= CANCEL_AT_PAGE


def _program_command() -> str:
    """How this very headway is called again, from here."""
    python = Path(sys.executable)
    here = Path.cwd()
    shown = os.path.relpath(python, here) if python.is_relative_to(here) else str(python)
    return f"{shown} -m headway"
