"""`headway run watch` and `headway run events`: what one run does, until it ends."""

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.live import Live

from headway.cli.client.api_client import Client, Refused, named
from headway.cli.client.open_client import connected
from headway.cli.exit_codes import EXIT_UNSUCCESSFUL
from headway.cli.output.event_text import GONE, event_lines
from headway.cli.output.printing import App, Json, ago, console, is_terminal, print_json, short
from headway.cli.output.screen import Screen
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

ASK_S: Final = 2.0
REDRAWS_PER_S: Final = 8

Events = Annotated[
    Json, Parameter(help="Print JSON, an object on every line: each event, and last the run.")
]
Told = Callable[[dict[str, Any]], None]


async def watch(run_id: str, /, *, app: App = None, json: Events = False) -> int:
    """Show what a run does until it ends. Ends with 0 when it succeeds, with 1 when it does not.

    Parameters
    ----------
    run_id
        The run.
    """
    async with connected(app) as client:
        return await watch_run(client, run_id, as_json=json)


async def watch_run(client: Client, run_id: str, *, as_json: bool) -> int:
    """The exit code: whether it has succeeded."""
    run = await client.get(f"/api/runs/{named(run_id)}")
    if as_json:
        run = await _followed(client, run, print_json)
        print_json(run)
    elif is_terminal():
        run = await _shown_live(client, run)
    else:
        run = await _followed(client, run, _print_lines)
        print(_outcome(run))
    return 0 if run["status"] == RunStatus.SUCCEEDED else EXIT_UNSUCCESSFUL


def _print_lines(event: dict[str, Any]) -> None:
    for line in event_lines(event):
        print(line, flush=True)


async def _followed(client: Client, run: Any, tell: Told) -> Any:
    """The run, once it is over."""
    path = f"/api/runs/{named(run['id'])}"
    # Asked for even if it is over: what it did is worth seeing.
    async for event in client.events(run["id"]):
        tell(event)
        if event["type"] == "resync" or _is_end(event):
            run = await client.get(path)
            if run["status"] in TERMINAL:
                return run
    raise AssertionError("events have no end")


def _is_end(event: dict[str, Any]) -> bool:
    return event["type"] == "run_state_changed" and event["payload"]["to"] in TERMINAL


async def _shown_live(client: Client, run: Any) -> Any:
    screen = Screen(run)
    with Live(screen, console=console(), refresh_per_second=REDRAWS_PER_S, transient=True) as live:
        asking = asyncio.create_task(_keep_asking(client, screen))
        try:
            run = await _followed(client, run, screen.tell)
        finally:
            asking.cancel()
            await asyncio.wait([asking])
        screen.run = run
        live.refresh()
    console().print(screen)
    console().print(_outcome(run))
    return run


async def _keep_asking(client: Client, screen: Screen) -> None:
    """Why it does not move and what it asks: no event of the run's own tells when that changes."""
    path = f"/api/runs/{named(screen.run['id'])}"
    while True:  # Ends by cancellation only.
        try:
            screen.run = await client.get(path)
            screen.explanation = await client.get(f"{path}/explain")
            asked = await client.get("/api/interrupts", run_id=screen.run["id"])
            screen.questions = asked["interrupts"]
        except Refused:  # Whoever follows the events is told, too, and knows what to do.
            screen.explanation = None
        await asyncio.sleep(ASK_S)


def _outcome(run: Any) -> str:
    took = f" after {ago(run['queued_at'], until=run['ended_at'])}"
    if run["status"] == RunStatus.SUCCEEDED:
        return f"succeeded{took}: {short(run['result'])}"
    reason = (run["error"] or {}).get("message") or (run["cancel"] or {}).get("reason")
    return f"{run['status']}{took}" + (f": {short(reason)}" if reason else "")


async def events(
    run_id: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=())] = False,
    app: App = None,
    json: Json = False,
) -> None:
    """Print what has happened to a run, a line for each event and for each line of its log.

    Parameters
    ----------
    run_id
        The run.
    follow
        Go on until the run has ended.
    """
    tell: Told = print_json if json else _print_lines
    async with connected(app) as client:
        run = await client.get(f"/api/runs/{named(run_id)}")
        if follow:
            await _followed(client, run, tell)
            return
        place: dict[str, str | int] = {}
        while True:  # Pages have an end: what is written meanwhile is left for the next time.
            page = await client.get(f"/api/runs/{named(run_id)}/events", **place)
            if page["resync"]:
                print(GONE, file=sys.stderr)
            for event in page["events"]:
                tell(event)
            if not page["has_more"]:
                return
            place = {"after": page["event_id"], "epoch": page["epoch"]}
