"""`headway run watch` and `headway run events`: follow one run until it ends."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Final

from cyclopts import Parameter
from rich.live import Live

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.exit_codes import EXIT_UNSUCCESSFUL
from headway.cli.options import AppOption, FollowOption, JsonOption, RunIdArgument
from headway.cli.output.event_text import EVENTS_REMOVED, format_event_lines
from headway.cli.output.printing import (
    format_age,
    is_terminal,
    make_console,
    print_json,
    shorten,
    to_printable,
)
from headway.cli.output.screen import MOVING_GATES, RunScreen
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

POLL_S: Final = 2.0
REDRAWS_PER_S: Final = 8

EventsJsonOption = Annotated[
    JsonOption, Parameter(help="Print JSON, one object per line: each event, and last the run.")
]
EventHandler = Callable[[dict[str, Any]], None]


async def watch(
    run_id: RunIdArgument, /, *, app: AppOption = None, json: EventsJsonOption = False
) -> int:
    """Show the state, progress and events of a run until it ends. Return the exit code."""
    async with open_client(app) as client:
        return await watch_run(client, run_id, as_json=json)


async def watch_run(client: Client, run_id: str, *, as_json: bool) -> int:
    """Show a run until it ends. Return exit code 0 if it succeeded, else 1."""
    run = await client.get(f"/api/runs/{quote_segment(run_id)}")
    if is_terminal() and not as_json:
        run = await _show_live(client, run)
    else:
        obstacles = asyncio.create_task(_report_obstacles(client, run["id"]))
        try:
            run = await _follow(client, run, print_json if as_json else _print_lines)
        finally:
            obstacles.cancel()
            await asyncio.wait([obstacles])
        if as_json:
            print_json(run)
        else:
            print(_outcome(run))
    return 0 if run["status"] == RunStatus.SUCCEEDED else EXIT_UNSUCCESSFUL


def _print_lines(event: dict[str, Any]) -> None:
    for line in format_event_lines(event):
        print(line, flush=True)


async def _follow(client: Client, run: Any, handle: EventHandler) -> Any:
    """Pass each event to `handle`, and return the run when it has ended."""
    path = f"/api/runs/{quote_segment(run['id'])}"
    # The stream also contains the events of a run that has already ended.
    async for event in client.events(run["id"]):
        handle(event)
        if event["type"] == "resync" or _is_end(event):
            run = await client.get(path)
            if run["status"] in TERMINAL:
                return run
    raise AssertionError("the event stream ended before the run did")


def _is_end(event: dict[str, Any]) -> bool:
    return event["type"] == "run_state_changed" and event["payload"]["to"] in TERMINAL


async def _show_live(client: Client, run: Any) -> Any:
    screen = RunScreen(run)
    with Live(
        screen, console=make_console(), refresh_per_second=REDRAWS_PER_S, transient=True
    ) as live:
        poll = asyncio.create_task(_poll_run(client, screen))
        try:
            run = await _follow(client, run, screen.add_event)
        finally:
            poll.cancel()
            await asyncio.wait([poll])
        screen.run = run
        live.refresh()
    make_console().print(screen)
    make_console().print(_outcome(run))
    return run


async def _report_obstacles(client: Client, run_id: str) -> None:
    """Print what the run waits for, and what to do, to stderr whenever either changes."""
    reported = None
    while True:  # Ends by cancellation only.
        await asyncio.sleep(POLL_S)
        with suppress(ApiError):  # `_follow` gets the same error, and retries or reports it.
            explanation = await client.get(f"/api/runs/{quote_segment(run_id)}/explain")
            obstacle = f"{explanation['sentence']} {explanation['remedy']}"
            if explanation["gate"] not in MOVING_GATES and obstacle != reported:
                print(f"{explanation['status']}: {to_printable(obstacle)}", file=sys.stderr)
                reported = obstacle


async def _poll_run(client: Client, screen: RunScreen) -> None:
    """Poll the run, its explanation and its open questions, and update the screen.

    The explanation and the open questions can change without an event of the run.
    """
    path = f"/api/runs/{quote_segment(screen.run['id'])}"
    while True:  # Ends by cancellation only.
        try:
            screen.run = await client.get(path)
            screen.explanation = await client.get(f"{path}/explain")
            page = await client.get("/api/interrupts", run_id=screen.run["id"])
            screen.interrupts = page["interrupts"]
        except ApiError:  # `_follow` gets the same error, and retries or reports it.
            screen.explanation = None
        await asyncio.sleep(POLL_S)


def _outcome(run: Any) -> str:
    duration = f" after {format_age(run['queued_at'], until=run['ended_at'])}"
    if run["status"] == RunStatus.SUCCEEDED:
        return f"succeeded{duration}: {shorten(run['result'])}"
    reason = (run["error"] or {}).get("message") or (run["cancel"] or {}).get("reason")
    return f"{run['status']}{duration}" + (f": {shorten(reason)}" if reason else "")


async def events(
    run_id: RunIdArgument,
    /,
    *,
    follow: FollowOption = False,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Print the events of a run, with one line for each event and for each log line."""
    handle: EventHandler = print_json if json else _print_lines
    async with open_client(app) as client:
        run = await client.get(f"/api/runs/{quote_segment(run_id)}")
        if follow:
            await _follow(client, run, handle)
            return
        position: dict[str, str | int] = {}
        while True:  # Ends at the last page; later events are left for the next call.
            page = await client.get(f"/api/runs/{quote_segment(run_id)}/events", **position)
            if page["resync"]:
                print(EVENTS_REMOVED, file=sys.stderr)
            for event in page["events"]:
                handle(event)
            if not page["has_more"]:
                return
            position = {"after": page["event_id"], "epoch": page["epoch"]}
