"""`headway db …`"""

import dataclasses
import json as jsonlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from headway.bootstrap import accept_primary, check_database, display_urls, upgrade_database
from headway.cli.commands.database_urls import AppOption, find_database_urls
from headway.cli.output.printing import JsonOption, print_json

if TYPE_CHECKING:
    from headway.services.upkeep.pruner import PrunedCounts


async def upgrade(*, app: AppOption = None, json: JsonOption = False) -> None:
    """Bring the schema to this program's version; safe to run again, and from several places."""
    urls = find_database_urls("db upgrade", app)
    _print_version(await upgrade_database(urls), "the schema is at", urls, as_json=json)


async def check(*, app: AppOption = None, json: JsonOption = False) -> None:
    """Say whether this program can use the schema; changes nothing."""
    urls = find_database_urls("db check", app)
    _print_version(await check_database(urls), "the schema is current:", urls, as_json=json)


async def accept(*, app: AppOption = None, json: JsonOption = False) -> None:
    """Make all servers use the primary that is up now, although it lacks commits they have seen.

    Use it after a failover or a restore: running servers refuse such a primary until then.
    Exactly one of the configured addresses must accept writes. Commits that it lacks are lost.
    """
    accepted = await accept_primary(find_database_urls("db accept-primary", app))
    if json:
        print_json(dataclasses.asdict(accepted))
        return
    print(
        f"accepted {accepted.address} as the primary: epoch {accepted.epoch}, its last event is"
        f" {accepted.seq}\nrunning servers follow within seconds; a node with a lower epoch is"
        " refused from now on"
    )


async def prune(
    *,
    app: str | None = None,
    runs_days: float | None = None,
    events_days: float | None = None,
    idempotency_keys_days: float | None = None,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    json: JsonOption = False,
) -> None:
    """Remove now what is over and old enough, all of it; servers do so by themselves, bit by bit.

    Parameters
    ----------
    app
        The `Headway` whose retention counts, as `module:name`. Without it: 30 days for runs and
        events, 7 for idempotency keys.
    runs_days
        Keep runs that have ended within so many days.
    events_days
        Keep events of so many days.
    idempotency_keys_days
        Keep idempotency keys of so many days.
    dry_run
        Say what would be removed, and change nothing.
    """
    # Only here: they are slow to import, and the other commands need neither.
    from headway.cli.load_app import load_app  # noqa: PLC0415
    from headway.services.upkeep.pruner import DAY_S, Pruner  # noqa: PLC0415

    find_database_urls("db prune", app)
    hw = load_app(app)
    given = {"runs_s": runs_days, "events_s": events_days}
    given["idempotency_keys_s"] = idempotency_keys_days
    kept_s = {name: days * DAY_S for name, days in given.items() if days is not None}
    async with hw.without_engine():
        retention = dataclasses.replace(hw.retention, **kept_s)
        keeper = Pruner(hw.store, hw.store.runs, hw.store.events, hw.store.workers, retention)
        with Console(stderr=True).status("counting" if dry_run else "removing"):
            removed = await (keeper.count_prunable() if dry_run else keeper.prune_all())
    if json:
        print_json({"dry_run": dry_run, "database": display_urls(hw.urls), **removed._asdict()})
        return
    print(f"{'would remove' if dry_run else 'removed'}: {_format_counts(removed)}")
    print(f"database: {display_urls(hw.urls)}")


def _format_counts(removed: "PrunedCounts") -> str:
    runs, events, keys, workers = (f"{count:,}" for count in removed)
    return f"{runs} runs, {events} events, {keys} idempotency keys, {workers} silent workers"


def _print_version(version: str, sentence: str, urls: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(jsonlib.dumps({"schema": version, "database": display_urls(urls)}))
    else:
        print(f"{sentence} {version}\ndatabase: {display_urls(urls)}")
