"""`headway key …`: show and change saved rows of keys, and stop all runs of a key."""

from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from headway.cli.client.api_client import named
from headway.cli.client.open_client import connected
from headway.cli.output.printing import App, Json, print_json, print_list, short
from headway.cli.typed_values import values_of


async def list_(*, app: App = None, json: Json = False) -> None:
    """List the saved rows, by key."""
    async with connected(app) as client:
        rows = await client.listed("/api/keys", "keys")
    _show(rows, as_json=json)


async def set_(key: str, job: str, /, *params: str, app: App = None, json: Json = False) -> None:
    """Save what the key's next run is to be. Ends with 3 while a run of the key is active.

    Parameters
    ----------
    key
        What must be serial.
    job
        The kind of work.
    params
        Its parameters, as `name=value`; a value that is JSON is taken as such.
    """
    async with connected(app) as client:
        wanted = {"job": job, "params": values_of(params, place="params")}
        saved = await client.put(f"/api/keys/{named(key)}", wanted)
    _show([saved], as_json=json)


async def rm(key: str, /, *, app: App = None, json: Json = False) -> None:
    """Forget what was saved for a key. Ends with 3 while a run of the key is active.

    Parameters
    ----------
    key
        The key.
    """
    async with connected(app) as client:
        await client.delete(f"/api/keys/{named(key)}")
    print_json({"key": key}) if json else print("removed")


async def stop(
    key: str,
    /,
    *,
    delete_files: Annotated[bool, Parameter(negative=())] = False,
    reason: str = "",
    app: App = None,
    json: Json = False,
) -> None:
    """Cancel all runs of a key, the queued ones first, so that none of them starts.

    Parameters
    ----------
    key
        The key.
    delete_files
        Also delete the files that its active run has finished.
    reason
        The reason, which is stored with the runs.
    """
    files = "delete" if delete_files else "keep"
    async with connected(app) as client:
        wanted = {"key": key, "files": files, "reason": reason}
        stopped = await client.post("/api/stop-key", wanted)
    empty = "the key has no active run"
    columns = itemgetter("run_id", "answer")
    print_list(stopped["runs"], ("run", "answer"), columns, empty=empty, as_json=json)


def _show(rows: list[Any], *, as_json: bool) -> None:
    headings = ("key", "job", "parameters")
    print_list(rows, headings, _columns, empty="nothing is saved", as_json=as_json)


def _columns(row: Any) -> tuple[str, ...]:
    return (row["key"], row["job"], short(row["params"]))
