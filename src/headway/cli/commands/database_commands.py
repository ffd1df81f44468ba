"""`headway db …`: upgrade, check and prune the database, and accept a new primary."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from headway.bootstrap import accept_primary, check_database, display_urls, upgrade_database
from headway.cli.commands.database_urls import find_database_urls
from headway.cli.options import DatabaseAppOption, JsonOption
from headway.cli.output.printing import print_json, print_result

if TYPE_CHECKING:
    from headway.services.upkeep.pruner import PrunedCounts


async def upgrade(*, app: DatabaseAppOption = None, json: JsonOption = False) -> None:
    """Create the schema, or upgrade it to this version of headway.

    The command is safe to repeat and to run concurrently.
    """
    urls = find_database_urls("db upgrade", app)
    _print_version(await upgrade_database(urls), "the schema is at", urls, as_json=json)


async def check(*, app: DatabaseAppOption = None, json: JsonOption = False) -> None:
    """Check whether this version of headway can use the schema, without changing anything."""
    urls = find_database_urls("db check", app)
    _print_version(await check_database(urls), "the schema is current:", urls, as_json=json)


async def accept(*, app: DatabaseAppOption = None, json: JsonOption = False) -> None:
    """Make all servers use the current primary, although it lacks commits that they have seen."""
    accepted = await accept_primary(find_database_urls("db accept-primary", app))
    text = (
        f"accepted {accepted.address} as the primary: epoch {accepted.epoch}, its last event is"
        f" {accepted.seq}\nrunning servers follow within seconds; a node with a lower epoch is"
        " refused from now on"
    )
    print_result(dataclasses.asdict(accepted), text, as_json=json)


async def prune(
    *,
    app: str | None = None,
    runs_days: float | None = None,
    events_days: float | None = None,
    idempotency_keys_days: float | None = None,
    dry_run: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: JsonOption = False,
) -> None:
    """Remove ended runs, events and idempotency keys that are older than the retention.

    Parameters
    ----------
    app
        The `Headway` whose database and retention to use, as `module:name`. Without it, the
        retention is 30 days for runs and events, and 7 days for idempotency keys.
    runs_days
        Keep runs that ended within this number of days.
    events_days
        Keep events that happened within this number of days.
    idempotency_keys_days
        Keep idempotency keys that were recorded within this number of days.
    dry_run
        Print what would be removed, and change nothing.
    """
    # Imported here because they are slow to import and the other commands do not need them.
    from headway.cli.load_app import load_app  # noqa: PLC0415
    from headway.services.upkeep.pruner import DAY_S, Pruner  # noqa: PLC0415

    find_database_urls("db prune", app)
    hw = load_app(app)
    days_by_name = {"runs_s": runs_days, "events_s": events_days}
    days_by_name["idempotency_keys_s"] = idempotency_keys_days
    changes_s = {name: days * DAY_S for name, days in days_by_name.items() if days is not None}
    async with hw.without_engine():
        retention = dataclasses.replace(hw.retention, **changes_s)
        pruner = Pruner(hw.store, hw.store.runs, hw.store.events, hw.store.workers, retention)
        with Console(stderr=True).status("counting" if dry_run else "removing"):
            counts = await (pruner.count_prunable() if dry_run else pruner.prune_all())
    if json:
        print_json({"dry_run": dry_run, "database": display_urls(hw.urls), **counts._asdict()})
        return
    print(f"{'would remove' if dry_run else 'removed'}: {_format_counts(counts)}")
    print(f"database: {display_urls(hw.urls)}")


def _format_counts(counts: "PrunedCounts") -> str:
    runs, events, keys, workers = (f"{count:,}" for count in counts)
    return f"{runs} runs, {events} events, {keys} idempotency keys, {workers} stale workers"


def _print_version(version: str, prefix: str, urls: Sequence[str], *, as_json: bool) -> None:
    value = {"schema": version, "database": display_urls(urls)}
    print_result(value, f"{prefix} {version}\ndatabase: {display_urls(urls)}", as_json=as_json)
