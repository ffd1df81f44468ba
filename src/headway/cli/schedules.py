"""`headway schedule …`: what runs again and again."""

from headway.cli.client.client import named
from headway.cli.client.connect import connected
from headway.cli.show import Json, print_json, print_rows


async def list_(*, app: str | None = None, json: Json = False) -> None:
    """List the schedules, and when each is due next.

    Parameters
    ----------
    app
        Without a server: where the schedules are, as `module:name`.
    json
        Print a JSON object on every line.
    """
    async with connected(app) as client:
        found = (await client.get("/api/schedules"))["schedules"]
    if json:
        for schedule in found:
            print_json(schedule)
        return
    names = ("name", "expression", "time_zone", "job", "key", "next_slot_at")
    print_rows(
        ("schedule", "expression", "time zone", "job", "key", "next"),
        ([schedule[name] for name in names] for schedule in found),
        empty="there are no schedules",
    )


async def run(name: str, /, *, app: str | None = None, json: Json = False) -> None:
    """Start now what a schedule would start at its next slot, and print the id of the run.

    Parameters
    ----------
    name
        The schedule.
    app
        Without a server: where the schedules are, as `module:name`.
    json
        Print one JSON object.
    """
    async with connected(app) as client:
        started = await client.post(f"/api/schedules/{named(name)}/run")
    print_json(started) if json else print(started["id"])
