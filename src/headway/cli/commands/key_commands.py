"""`headway key …`: show and change saved keys, and stop all runs of a key."""

from operator import itemgetter
from typing import Any

from headway.cli.client.api_client import quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.options import (
    AppOption,
    DeleteFilesOption,
    JobArgument,
    JsonOption,
    KeyArgument,
    ReasonOption,
    files_on_cancel,
)
from headway.cli.output.printing import print_list, print_result, shorten
from headway.cli.typed_values import parse_values


async def list_(*, app: AppOption = None, json: JsonOption = False) -> None:
    """List the saved keys by name."""
    async with open_client(app) as client:
        rows = await client.list_all("/api/keys", "keys")
    _print_rows(rows, as_json=json)


async def set_(
    key: KeyArgument,
    job: JobArgument,
    /,
    *params: str,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Save the job and the parameters for the next run of a key.

    Parameters
    ----------
    params
        Parameters of the job, as `name=value`. A value that is valid JSON is parsed: `count=5` is
        a number.
    """
    async with open_client(app) as client:
        body = {"job": job, "params": parse_values(params, field="params")}
        saved = await client.put(f"/api/keys/{quote_segment(key)}", body)
    _print_rows([saved], as_json=json)


async def rm(key: KeyArgument, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Remove the saved job and parameters of a key."""
    async with open_client(app) as client:
        await client.delete(f"/api/keys/{quote_segment(key)}")
    print_result({"key": key}, "removed", as_json=json)


async def stop(
    key: KeyArgument,
    /,
    *,
    delete_files: DeleteFilesOption = False,
    reason: ReasonOption = "",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel all runs of a key, the queued ones first, so that none of them starts."""
    files = files_on_cancel(delete_files=delete_files)
    async with open_client(app) as client:
        body = {"key": key, "files": files, "reason": reason}
        stopped = await client.post("/api/stop-key", body)
    empty = "the key has no active run"
    columns = itemgetter("run_id", "answer")
    print_list(stopped["runs"], ("run", "answer"), columns, empty=empty, as_json=json)


def _print_rows(rows: list[Any], *, as_json: bool) -> None:
    headings = ("key", "job", "parameters")
    print_list(rows, headings, _columns, empty="no keys are saved", as_json=as_json)


def _columns(row: Any) -> tuple[str, ...]:
    return (row["key"], row["job"], shorten(row["params"]))
