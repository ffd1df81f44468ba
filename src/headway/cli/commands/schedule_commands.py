"""`headway schedule …`: show, start, pause and resume schedules."""

from typing import Any

from headway.cli.client.api_client import quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.options import AppOption, IdempotencyKeyOption, JsonOption, ScheduleArgument
from headway.cli.output.printing import print_list, print_result


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List the schedules and their next start times."""
    async with open_client(app) as client:
        schedules = (await client.get("/api/schedules"))["schedules"]
    _print_schedules(schedules, as_json=json)


async def run(
    name: ScheduleArgument,
    /,
    *,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Start the run of a schedule now, and print the id of the run."""
    async with open_client(app) as client:
        path = f"/api/schedules/{quote_segment(name)}/run"
        started = await client.start(path, None, idempotency_key=idempotency_key)
    print_result(started, started["id"], as_json=json)


async def pause(
    name: ScheduleArgument, /, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """Pause a schedule, so that it starts no runs. Running runs continue."""
    await _set_paused(name, app, is_paused=True, as_json=json)


async def resume(
    name: ScheduleArgument, /, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """Resume a paused schedule, from its next start time."""
    await _set_paused(name, app, is_paused=False, as_json=json)


async def _set_paused(name: str, app: str | None, *, is_paused: bool, as_json: bool) -> None:
    async with open_client(app) as client:
        path = f"/api/schedules/{quote_segment(name)}"
        schedule = await client.patch(path, {"paused": is_paused})
    _print_schedules([schedule], as_json=as_json)


def _print_schedules(schedules: list[Any], *, as_json: bool) -> None:
    headings = ("schedule", "expression", "time zone", "job", "key", "next")
    print_list(schedules, headings, _columns, empty="no schedules are registered", as_json=as_json)


def _columns(schedule: Any) -> tuple[Any, ...]:
    names = ("name", "expression", "time_zone", "job", "key")
    next_fire_at = "paused" if schedule["paused"] else schedule["next_fire_at"]
    return (*(schedule[name] for name in names), next_fire_at)
