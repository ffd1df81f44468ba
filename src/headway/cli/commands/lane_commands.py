"""`headway lane …`: show lanes, set their limits, pause, resume and clear them."""

from typing import Any

from headway.cli.client.api_client import ApiError, Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.options import AppOption, JsonOption, LaneArgument
from headway.cli.output.printing import print_list, print_result
from headway.core.errors import InvalidInput
from headway.core.suggest import suggest_names


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List all lanes with their limits and the number of their runs."""
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
    """Set the limits of a lane. Limits that are not given do not change.

    Parameters
    ----------
    name
        The name of the lane. It is created if it does not exist.
    max_concurrent
        The maximum number of runs of the lane that run at once; 0 starts none.
    max_queued
        The maximum number of queued runs; -1 removes the limit.
    """
    if max_concurrent is None and max_queued is None:
        raise InvalidInput("limit", "give --max-concurrent or --max-queued")
    limits = {"max_concurrent": max_concurrent, "max_queued": max_queued}
    body = {field: limit for field, limit in limits.items() if limit is not None}
    async with open_client(app) as client:
        lane = await client.patch(f"/api/lanes/{quote_segment(name)}", body)
    _print_lanes([lane], as_json=json)


async def pause(name: LaneArgument, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Pause a lane, so that no more of its runs start. Running runs continue."""
    await _set_paused(name, app, is_paused=True, as_json=json)


async def resume(name: LaneArgument, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Resume a paused lane."""
    await _set_paused(name, app, is_paused=False, as_json=json)


async def clear(name: LaneArgument, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Cancel all runs of a lane that have not started. Runs that have started continue."""
    async with open_client(app) as client:
        try:
            result = await client.post(f"/api/lanes/{quote_segment(name)}/clear")
        except ApiError as error:
            raise await _lane_not_found(client, name) if error.status == 404 else error from None
    count = result["canceled_count"]
    print_result(result, f"{count:,} run{'' if count == 1 else 's'} canceled", as_json=json)


async def _set_paused(name: str, app: str | None, *, is_paused: bool, as_json: bool) -> None:
    """Pause or resume a lane. Raise ApiError if the lane does not exist.

    Otherwise a misspelled name would create a lane.
    """
    async with open_client(app) as client:
        path = f"/api/lanes/{quote_segment(name)}"
        try:
            lane = await client.patch(path, {"paused": is_paused}, {"if-match": "*"})
        except ApiError as error:
            raise await _lane_not_found(client, name) if error.status == 412 else error from None
    _print_lanes([lane], as_json=as_json)


async def _lane_not_found(client: Client, name: str) -> ApiError:
    names = [lane["name"] for lane in (await client.get("/api/lanes"))["lanes"]]
    detail = f"there is no lane {name!r}; existing lanes: {suggest_names(name, names)}"
    return ApiError(404, "lane_not_found", detail, {})


def _print_lanes(lanes: list[Any], *, as_json: bool) -> None:
    headings = ("lane", "running", "limit", "waiting", "queued", "queue limit", "paused")
    print_list(lanes, headings, _columns, empty="no lanes found", as_json=as_json)


def _columns(lane: Any) -> tuple[Any, ...]:
    running = (lane["held_count"], lane["max_concurrent"], lane["waiting_count"])
    queued = (lane["queued_count"], lane["max_queued"])
    return (lane["name"], *running, *queued, "paused" if lane["paused"] else "")
