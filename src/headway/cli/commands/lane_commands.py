"""`headway lane …`: see lanes, set their limits, pause, resume and clear them."""

from typing import Any

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.output.printing import AppOption, JsonOption, print_json, print_list
from headway.core.errors import InvalidInput
from headway.core.suggest import suggest_names


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List all lanes with their limits, and how many runs hold a slot or wait."""
    async with open_client(app) as client:
        lanes = (await client.get("/api/lanes"))["lanes"]
    _print_lanes(lanes, as_json=json)


async def set_(
    name: str,
    /,
    *,
    max_concurrent: int | None = None,
    max_queued: int | None = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Set a lane's limits; what is not given stays. A lowered limit interrupts nobody.

    Parameters
    ----------
    name
        The lane; one that is not there yet is made.
    max_concurrent
        How many of its runs may run at once; 0 pauses it.
    max_queued
        How many may wait; -1 lifts the limit.
    """
    if max_concurrent is None and max_queued is None:
        raise InvalidInput("limit", "say --max-concurrent or --max-queued")
    limits = {"max_concurrent": max_concurrent, "max_queued": max_queued}
    wanted = {field: limit for field, limit in limits.items() if limit is not None}
    async with open_client(app) as client:
        lane = await client.patch(f"/api/lanes/{quote_segment(name)}", wanted)
    _print_lanes([lane], as_json=json)


async def pause(name: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Start no more runs of a lane; what runs goes on.

    Parameters
    ----------
    name
        The lane.
    """
    await _set_paused(name, app, is_paused=True, as_json=json)


async def resume(name: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Start runs of a paused lane again.

    Parameters
    ----------
    name
        The lane.
    """
    await _set_paused(name, app, is_paused=False, as_json=json)


async def clear(name: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Cancel all runs that wait in a lane and have never started; what is active goes on.

    Parameters
    ----------
    name
        The lane.
    """
    async with open_client(app) as client:
        try:
            told = await client.post(f"/api/lanes/{quote_segment(name)}/clear")
        except ApiError as error:
            raise await _lane_not_found(client, name) if error.status == 404 else error from None
    if json:
        print_json(told)
    else:
        count = told["canceled_count"]
        print(f"{count:,} run{'' if count == 1 else 's'} canceled")


async def _set_paused(name: str, app: str | None, *, is_paused: bool, as_json: bool) -> None:
    """Of a lane that is there: a misspelt one would be made, and do nothing."""
    async with open_client(app) as client:
        path = f"/api/lanes/{quote_segment(name)}"
        try:
            lane = await client.patch(path, {"paused": is_paused}, {"if-match": "*"})
        except ApiError as error:
            raise await _lane_not_found(client, name) if error.status == 412 else error from None
    _print_lanes([lane], as_json=as_json)


async def _lane_not_found(client: Client, name: str) -> ApiError:
    there = [lane["name"] for lane in (await client.get("/api/lanes"))["lanes"]]
    detail = f"there is no lane {name!r}; there are: {suggest_names(name, there)}"
    return ApiError(404, "lane_not_found", detail, {})


def _print_lanes(lanes: list[Any], *, as_json: bool) -> None:
    headings = ("lane", "running", "limit", "waiting", "queued", "most queued", "paused")
    print_list(lanes, headings, _columns, empty="there are no lanes", as_json=as_json)


def _columns(lane: Any) -> tuple[Any, ...]:
    running = (lane["held_count"], lane["max_concurrent"], lane["waiting_count"])
    queued = (lane["queued_count"], lane["max_queued"])
    return (lane["name"], *running, *queued, "paused" if lane["paused"] else "")
