"""`headway key …`: show and change saved rows of keys, and stop all runs of a key."""

from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from headway.cli.client.api_client import quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.output.printing import AppOption, JsonOption, print_json, print_list, shorten
from headway.cli.typed_values import parse_values


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List the saved rows, by key."""
    async with open_client(app) as client:
        rows = await client.list_all("/api/keys", "keys")
    _print_rows(rows, as_json=json)


async def set_(
    key: str, job: str, /, *params: str, app: AppOption = None, json: JsonOption = False
) -> None:
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
    async with open_client(app) as client:
        wanted = {"job": job, "params": parse_values(params, field="params")}
        saved = await client.put(f"/api/keys/{quote_segment(key)}", wanted)
    _print_rows([saved], as_json=json)


async def rm(key: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Forget what was saved for a key. Ends with 3 while a run of the key is active.

    Parameters
    ----------
    key
        The key.
    """
    async with open_client(app) as client:
        await client.delete(f"/api/keys/{quote_segment(key)}")
    print_json({"key": key}) if json else print("removed")


async def stop(
    key: str,
    /,
    *,
    delete_files: Annotated[bool, Parameter(negative=())] = False,
    reason: str = "",
    app: AppOption = None,
    json: JsonOption = False,
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
    async with open_client(app) as client:
        wanted = {"key": key, "files": files, "reason": reason}
        stopped = await client.post("/api/stop-key", wanted)
    empty = "the key has no active run"
    columns = itemgetter("run_id", "answer")
    print_list(stopped["runs"], ("run", "answer"), columns, empty=empty, as_json=json)


def _print_rows(rows: list[Any], *, as_json: bool) -> None:
    headings = ("key", "job", "parameters")
    print_list(rows, headings, _columns, empty="nothing is saved", as_json=as_json)


def _columns(row: Any) -> tuple[str, ...]:
    return (row["key"], row["job"], shorten(row["params"]))
