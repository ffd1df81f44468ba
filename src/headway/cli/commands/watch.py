"""`headway run watch` and `headway run events`: what one run does, until it ends."""

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.live import Live

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.exit_codes import EXIT_UNSUCCESSFUL
from headway.cli.output.event_text import EVENTS_REMOVED, format_event_lines
from headway.cli.output.printing import (
    AppOption,
    JsonOption,
    format_age,
    is_terminal,
    make_console,
    print_json,
    shorten,
)
from headway.cli.output.screen import RunScreen
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

POLL_S: Final = 2.0
REDRAWS_PER_S: Final = 8

EventsJsonOption = Annotated[
    JsonOption, Parameter(help="Print JSON, an object on every line: each event, and last the run.")
]
EventHandler = Callable[[dict[str, Any]], None]


async def watch(run_id: str, /, *, app: AppOption = None, json: EventsJsonOption = False) -> int:
    """Show what a run does until it ends. Ends with 0 when it succeeds, with 1 when it does not.

    Parameters
    ----------
    run_id
        The run.
    """
    async with open_client(app) as client:
        return await watch_run(client, run_id, as_json=json)


async def watch_run(client: Client, run_id: str, *, as_json: bool) -> int:
    """The exit code: whether it has succeeded."""
    run = await client.get(f"/api/runs/{quote_segment(run_id)}")
    if as_json:
        run = await _follow(client, run, print_json)
        print_json(run)
    elif is_terminal():
        run = await _show_live(client, run)
    else:
        run = await _follow(client, run, _print_lines)
        print(_outcome(run))
    return 0 if run["status"] == RunStatus.SUCCEEDED else EXIT_UNSUCCESSFUL


def _print_lines(event: dict[str, Any]) -> None:
    for line in format_event_lines(event):
        print(line, flush=True)


async def _follow(client: Client, run: Any, tell: EventHandler) -> Any:
    """The run, once it is over."""
    path = f"/api/runs/{quote_segment(run['id'])}"
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


async def _show_live(client: Client, run: Any) -> Any:
    screen = RunScreen(run)
    with Live(
        screen, console=make_console(), refresh_per_second=REDRAWS_PER_S, transient=True
    ) as live:
        asking = asyncio.create_task(_poll_run(client, screen))
        try:
            run = await _follow(client, run, screen.add_event)
        finally:
            asking.cancel()
            await asyncio.wait([asking])
        screen.run = run
        live.refresh()
    make_console().print(screen)
    make_console().print(_outcome(run))
    return run


async def _poll_run(client: Client, screen: RunScreen) -> None:
    """Why it does not move and what it asks: no event of the run's own tells when that changes."""
    path = f"/api/runs/{quote_segment(screen.run['id'])}"
    while True:  # Ends by cancellation only.
        try:
            screen.run = await client.get(path)
            screen.explanation = await client.get(f"{path}/explain")
            asked = await client.get("/api/interrupts", run_id=screen.run["id"])
            screen.interrupts = asked["interrupts"]
        except ApiError:  # Whoever follows the events is told, too, and knows what to do.
            screen.explanation = None
        await asyncio.sleep(POLL_S)


def _outcome(run: Any) -> str:
    took = f" after {format_age(run['queued_at'], until=run['ended_at'])}"
    if run["status"] == RunStatus.SUCCEEDED:
        return f"succeeded{took}: {shorten(run['result'])}"
    reason = (run["error"] or {}).get("message") or (run["cancel"] or {}).get("reason")
    return f"{run['status']}{took}" + (f": {shorten(reason)}" if reason else "")


async def events(
    run_id: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative=())] = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print what has happened to a run, a line for each event and for each line of its log.

    Parameters
    ----------
    run_id
        The run.
    follow
        Go on until the run has ended.
    """
    tell: EventHandler = print_json if json else _print_lines
    async with open_client(app) as client:
        run = await client.get(f"/api/runs/{quote_segment(run_id)}")
        if follow:
            await _follow(client, run, tell)
            return
        place: dict[str, str | int] = {}
        while True:  # Pages have an end: what is written meanwhile is left for the next time.
            page = await client.get(f"/api/runs/{quote_segment(run_id)}/events", **place)
            if page["resync"]:
                print(EVENTS_REMOVED, file=sys.stderr)
            for event in page["events"]:
                tell(event)
            if not page["has_more"]:
                return
            place = {"after": page["event_id"], "epoch": page["epoch"]}
