"""`headway schedule …`: what runs again and again."""

from typing import Any

from headway.cli.client.api_client import quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.output.printing import (
    AppOption,
    IdempotencyKeyOption,
    JsonOption,
    print_json,
    print_list,
)


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List the schedules, and when each is due next."""
    async with open_client(app) as client:
        found = (await client.get("/api/schedules"))["schedules"]
    _print_schedules(found, as_json=json)


async def run(
    name: str,
    /,
    *,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Start now what a schedule would start at its next slot, and print the id of the run.

    Parameters
    ----------
    name
        The schedule.
    """
    async with open_client(app) as client:
        path = f"/api/schedules/{quote_segment(name)}/run"
        started = await client.start(path, None, idempotency_key=idempotency_key)
    print_json(started) if json else print(started["id"])


async def pause(name: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Let a schedule start nothing until it is resumed; what runs goes on.

    Parameters
    ----------
    name
        The schedule.
    """
    await _change(name, {"paused": True}, app, as_json=json)


async def resume(name: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Let a paused schedule go on, with the next slot from now.

    Parameters
    ----------
    name
        The schedule.
    """
    await _change(name, {"paused": False}, app, as_json=json)


async def _change(name: str, wanted: dict[str, Any], app: str | None, *, as_json: bool) -> None:
    async with open_client(app) as client:
        schedule = await client.patch(f"/api/schedules/{quote_segment(name)}", wanted)
    _print_schedules([schedule], as_json=as_json)


def _print_schedules(schedules: list[Any], *, as_json: bool) -> None:
    headings = ("schedule", "expression", "time zone", "job", "key", "next")
    print_list(schedules, headings, _columns, empty="there are no schedules", as_json=as_json)


def _columns(schedule: Any) -> tuple[Any, ...]:
    names = ("name", "expression", "time_zone", "job", "key")
    following = "paused" if schedule["paused"] else schedule["next_fire_at"]
    return (*(schedule[name] for name in names), following)
