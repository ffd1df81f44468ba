"""The story of the demo: what is started, refused, cancelled and approved, and what comes of it."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from headway.cli.client.api_client import Client, Refused, named
from headway.cli.commands.task_commands import node_run_line, node_runs
from headway.cli.demo.demo_flows import BRANCH, ORDER, ORDER_PARAMS
from headway.cli.demo.demo_keys import PAGE_COUNT, Board, Shown
from headway.cli.demo.environment import Site, opened_site
from headway.cli.exit_codes import EXIT_INTERRUPTED
from headway.cli.output.printing import plain

ACCOUNTS: Final = ("ann", "bob", "cem", "dot", "eve")
TEXT: Final = "Make Headway"
TASKS: Final = {
    "text B": ("branch", {"text": TEXT, "action": "goB"}),
    "text C": ("branch", {"text": TEXT, "action": "goC"}),
    "order": ("order", ORDER_PARAMS),
}
CANCELLED: Final = "bob"
CANCELLED_AT_PAGE: Final = 3
REDRAW_S: Final = 0.15
WATCHED_S: Final = 20.0
UNWATCHED_S: Final = 1.5
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
    board = Board()
    if seconds is None:
        seconds = WATCHED_S if board.is_terminal else UNWATCHED_S
    with tempfile.TemporaryDirectory(prefix="headway-demo-") as folder:
        has_ended = False
        try:
            async with opened_site(Path(folder)) as site:
                await _Story(site, board, page_s=seconds / PAGE_COUNT).told()
                has_ended = True
                if board.is_terminal:
                    board.say(f"\n{_invitation(site)}; Ctrl-C ends it, and leaves nothing behind.")
                    await asyncio.Event().wait()
        except asyncio.CancelledError:  # Ctrl-C has ended the server.
            # That is how a person leaves it; in a pipe it had not come to its end.
            return 0 if has_ended or board.is_terminal else EXIT_INTERRUPTED
    return 0


def _invitation(site: Site) -> str:
    return f"Look around at {site.address}/ui/" if site.has_page else f"It serves {site.address}"


class _Story:
    def __init__(self, site: Site, board: Board, *, page_s: float) -> None:
        self._site = site
        self._mirror = {"job": "mirror", "params": {"page_count": PAGE_COUNT, "page_s": page_s}}
        self._client: Client = site.client
        self._board = board
        self._task_ids: dict[str, str] = {}
        self._run_ids: dict[str, str] = {}

    async def told(self) -> None:
        page = f", the page is {self._site.address}/ui/" if self._site.has_page else ""
        self._board.say(
            f"the server is {self._site.address}{page}; a worker is {self._site.worker}"
        )
        await self._begin()
        with self._board:
            await self._go_on()
        await self._results()

    async def _begin(self) -> None:
        for name, definition in (("branch", BRANCH), ("order", ORDER)):
            await self._client.put(f"/api/flows/{name}", definition)
        for name, (flow, params) in TASKS.items():
            task = await self._client.post(f"/api/flows/{flow}/tasks", {"params": params})
            self._task_ids[name] = task["id"]
        for name in ACCOUNTS:  # Saved, they stay on the board when they are over.
            await self._client.put(f"/api/keys/{named(name)}", self._mirror)
        for name in ACCOUNTS:
            run = await self._client.post("/api/runs", {"key": name, **self._mirror})
            self._run_ids[name] = run["id"]
        try:
            await self._client.post("/api/runs", {"key": "ann", **self._mirror})
        except Refused as refusal:
            self._board.say(f"a second start for ann is refused: {refusal}")

    async def _go_on(self) -> None:
        """Show it until all of it is over; cancel one run, and see that the order is approved."""
        is_cancelled = is_asked = False
        while True:  # All that was started has an end.
            runs = [await self._client.get(f"/api/runs/{one}") for one in self._run_ids.values()]
            tasks = [await self._shown(name) for name in TASKS]
            order = tasks[-1].task
            if is_asked and order["waits_for"] is None:
                self._board.hint("")
            self._board.show(runs, tasks)
            if all(one["ended_at"] for one in (*runs, *(shown.run for shown in tasks))):
                return
            if not is_asked and order["waits_for"] == "approval":
                is_asked = True
                await self._ask(order["id"])
            if not is_cancelled and _is_well_under_way(runs):
                is_cancelled = True
                reason = {"reason": "to show what that looks like"}
                await self._client.post(f"/api/runs/{self._run_ids[CANCELLED]}/cancel", reason)
            await asyncio.sleep(REDRAW_S)

    async def _shown(self, name: str) -> Shown:
        task_id = named(self._task_ids[name])
        task = await self._client.get(f"/api/tasks/{task_id}")
        rows = [row async for row in node_runs(self._client, self._task_ids[name])]
        return Shown(name, task, await self._client.get(f"/api/runs/{task_id}"), rows)

    async def _ask(self, task_id: str) -> None:
        """A person answers; in a pipe the demo itself does."""
        if self._board.is_terminal:
            self._board.hint(
                "\nThe order waits for you. In another terminal, in this folder:\n"
                f"  HEADWAY_URL={self._site.address} {_this_program()} task approve {task_id}"
            )
            return
        self._board.say("order    is approved by the demo: in a pipe there is nobody to ask")
        await self._client.post(f"/api/tasks/{named(task_id)}/approve", {"answer": True})

    async def _results(self) -> None:
        for name in TASKS:
            shown = await self._shown(name)
            self._board.say(f"\n{name}: {shown.run['status']}")
            for key, value in shown.task["shared"].items():
                self._board.say(f"  {key} = {plain(value)}")
            for row in shown.rows:
                self._board.say(f"  {node_run_line(row)}")
        state = await self._client.get("/api/state")
        self._board.say(
            f"\nbob's run was cancelled on purpose. {len(self._run_ids)} runs, {len(TASKS)} tasks,"
            f" {state['seq']} events, nothing lost."
        )


def _is_well_under_way(runs: list[Any]) -> bool:
    progress = runs[ACCOUNTS.index(CANCELLED)]["progress"] or {}
    return int(progress.get("downloaded", 0)) >= CANCELLED_AT_PAGE


def _this_program() -> str:
    """How this very headway is called again, from here."""
    python = Path(sys.executable)
    here = Path.cwd()
    shown = os.path.relpath(python, here) if python.is_relative_to(here) else str(python)
    return f"{shown} -m headway"
