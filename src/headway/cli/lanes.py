"""`headway lane …`: see lanes, set their limits, pause, resume and clear them."""

from typing import Any

from headway.cli.client.client import named
from headway.cli.client.connect import connected
from headway.cli.show import Json, print_json, print_list
from headway.core.errors import InvalidInput


async def list_(*, json: Json = False) -> None:
    """List all lanes with their limits, and how many runs hold a slot or wait."""
    async with connected() as client:
        lanes = (await client.get("/api/lanes"))["lanes"]
    _show(lanes, as_json=json)


async def set_(
    name: str,
    /,
    *,
    max_concurrent: int | None = None,
    max_queued: int | None = None,
    json: Json = False,
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
    wanted = {"max_concurrent": max_concurrent, "max_queued": max_queued}
    await _change(name, wanted, as_json=json)


async def pause(name: str, /, *, json: Json = False) -> None:
    """Start no more runs of a lane; what runs goes on.

    Parameters
    ----------
    name
        The lane.
    """
    await _change(name, {"paused": True}, as_json=json)


async def resume(name: str, /, *, json: Json = False) -> None:
    """Start runs of a paused lane again.

    Parameters
    ----------
    name
        The lane.
    """
    await _change(name, {"paused": False}, as_json=json)


async def clear(name: str, /, *, json: Json = False) -> None:
    """Cancel all runs that wait in a lane and have never started; what is active goes on.

    Parameters
    ----------
    name
        The lane.
    """
    async with connected() as client:
        told = await client.post(f"/api/lanes/{named(name)}/clear")
    if json:
        print_json(told)
    else:
        count = told["canceled_count"]
        print(f"{count:,} run{'' if count == 1 else 's'} canceled")


async def _change(name: str, wanted: dict[str, Any], *, as_json: bool) -> None:
    given = {field: value for field, value in wanted.items() if value is not None}
    async with connected() as client:
        lane = await client.patch(f"/api/lanes/{named(name)}", given)
    _show([lane], as_json=as_json)


def _show(lanes: list[Any], *, as_json: bool) -> None:
    headings = ("lane", "running", "limit", "queued", "most queued", "paused")
    print_list(lanes, headings, _columns, empty="there are no lanes", as_json=as_json)


def _columns(lane: Any) -> tuple[Any, ...]:
    running = (lane["held_count"], lane["max_concurrent"])
    queued = (lane["queued_count"], lane["max_queued"])
    return (lane["name"], *running, *queued, "paused" if lane["paused"] else "")
