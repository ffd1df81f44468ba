"""`headway task …`: look at tasks of flows, follow them, steer them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from cyclopts import Parameter

from headway.cli.client.api_client import Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.commands.flow_commands import parse_json
from headway.cli.exit_codes import EXIT_UNSUCCESSFUL
from headway.cli.output.printing import (
    AppOption,
    IdempotencyKeyOption,
    JsonOption,
    format_age,
    print_json,
    print_list,
    shorten,
    to_printable,
)
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

POLL_S: Final = 0.5
ANSWERS: Final[dict[str, bool]] = {"yes": True, "no": False}
PAGE_SIZE: Final = 1_000
"""How many node runs are asked for at once."""
NodeRunsJsonOption = Annotated[
    JsonOption,
    Parameter(
        help="Print JSON, an object on every line:"
        " each node run, and the task whenever it waits, and at its end."
    ),
]


async def list_(
    *, flow: str | None = None, limit: int = 50, app: AppOption = None, json: JsonOption = False
) -> None:
    """List the tasks that moved last.

    Parameters
    ----------
    flow
        Only those of this flow.
    limit
        At most so many.
    """
    async with open_client(app) as client:
        found = await client.list_all("/api/tasks", "tasks", limit=limit, flow=flow)
    headings = ("task", "flow", "state", "node", "waits for", "moved")
    print_list(found, headings, _columns, empty="there are no such tasks", as_json=json)


def _columns(task: Any) -> tuple[Any, ...]:
    flow = f"{task['flow']} v{task['version']}"
    where = (task["node"], task["waits_for"])
    return (task["id"], flow, task["status"], *where, f"{format_age(task['updated_at'])} ago")


async def get(task_id: str, /, *, app: AppOption = None, json: JsonOption = False) -> None:
    """Show a task with its node runs.

    Parameters
    ----------
    task_id
        The task.
    """
    async with open_client(app) as client:
        task = await client.get(f"/api/tasks/{quote_segment(task_id)}")
        rows = [row async for row in node_runs(client, task_id)]
    if json:
        print_json(task | {"node_runs": rows})
        return
    print(_format_task(task))
    print(shorten(task["shared"]))
    for row in rows:
        print(format_node_run(row))


async def watch(task_id: str, /, *, app: AppOption = None, json: NodeRunsJsonOption = False) -> int:
    """Print what its nodes do, until it is over. Ends with 0 when it completes, else with 1.

    Parameters
    ----------
    task_id
        The task.
    """

    def tell(what: Any, line: str) -> None:
        print_json(what) if json else print(line, flush=True)

    seq, told = 0, ""
    async with open_client(app) as client:
        while True:  # Until it is over.
            # Before its node runs, so that none is missed.
            task = await client.get(f"/api/tasks/{quote_segment(task_id)}")
            before = seq
            async for row in node_runs(client, task_id, after=seq):
                seq = row["seq"]
                tell(row, format_node_run(row))
            if task["status"] in TERMINAL:
                tell(task, _format_task(task))
                return 0 if task["status"] == RunStatus.SUCCEEDED else EXIT_UNSUCCESSFUL
            # One that has moved on may not wait any more; if it does, that is another wait.
            waits_at = task["node"] if task["waits_for"] and seq == before else ""
            if waits_at and waits_at != told:
                tell(task, _format_task(task))
            told = waits_at
            await asyncio.sleep(POLL_S)


async def signal(
    task_id: str, key: str, value: str, /, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """Set a key of a task's shared state, and wake it.

    Parameters
    ----------
    task_id
        The task.
    key
        The key.
    value
        Its value, as JSON: 5, "text", true.
    """
    wanted = {"key": key, "value": parse_json(value, field="value")}
    async with open_client(app) as client:
        task = await client.post(f"/api/tasks/{quote_segment(task_id)}/signal", wanted)
    print_json(task) if json else print("accepted")


async def approve(
    task_id: str, answer: str = "yes", /, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """Answer the approval that a task waits for.

    Parameters
    ----------
    task_id
        The task.
    answer
        `yes`, `no`, or an action in words.
    """
    wanted = {"answer": ANSWERS.get(answer, answer)}
    async with open_client(app) as client:
        task = await client.post(f"/api/tasks/{quote_segment(task_id)}/approve", wanted)
    print_json(task) if json else print("answered")


async def cancel(
    task_id: str,
    /,
    *,
    delete_files: Annotated[bool, Parameter(negative=())] = False,
    reason: str = "",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Ask a task to end. Prints whether it is over or has yet to unwind; 3 when it was over before.

    Parameters
    ----------
    task_id
        The task.
    delete_files
        Delete the files that it has finished, too.
    reason
        Why; it is kept with the task.
    """
    files = "delete" if delete_files else "keep"
    async with open_client(app) as client:
        path = f"/api/tasks/{quote_segment(task_id)}/cancel"
        told = await client.post(path, {"files": files, "reason": reason})
    print_json(told) if json else print(told["answer"])


async def rerun(
    task_id: str,
    node: str,
    /,
    *,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Start a new task that begins at a node with the shared state of an old one; print its id.

    Parameters
    ----------
    task_id
        The old task.
    node
        Where the new one begins.
    """
    async with open_client(app) as client:
        path = f"/api/tasks/{quote_segment(task_id)}/rerun"
        task = await client.start(path, {"node": node}, idempotency_key=idempotency_key)
    print_json(task) if json else print(task["id"])


async def node_runs(client: Client, task_id: str, *, after: int = 0) -> AsyncIterator[Any]:
    """All from the one after `after` on, in the order of their ends."""
    path = f"/api/tasks/{quote_segment(task_id)}/node-runs"
    has_more = True
    while has_more:  # Every page has a row at least, if there are more.
        page = await client.get(path, after=after, limit=PAGE_SIZE)
        for row in page["node_runs"]:
            after = row["seq"]
            yield row
        has_more = page["has_more"]


def format_node_run(row: Any) -> str:
    by = f"  by {to_printable(row['worker']['id'])}" if row["worker"] else ""
    action = f" -> {to_printable(row['action'])}" if row["action"] not in ("", "default") else ""
    said = shorten(row["error"] or row["output"])
    return f"{row['seq']:4}  {node_path(row)}  {row['status']}{action}  {said}{by}".rstrip()


def node_path(row: Any) -> str:
    """`sub/inner[2]`: the node, within its subflows, and its branch if there are several."""
    is_whole = row["branch"] is None or row["action"] != ""
    branch = "" if is_whole else f"[{row['branch']}]"
    return to_printable("/".join(row["path"])) + branch


def _format_task(task: Any) -> str:
    waits = f", waits for {task['waits_for']}" if task["waits_for"] else ""
    awaited = task.get("awaited_worker")  # Servers of earlier versions do not send it.
    if awaited:
        services = ", ".join(repr(one) for one in awaited["services"])
        waits = f", waits for a worker that offers {services} until {awaited['until']}"
    where = f"{task['flow']} v{task['version']}  {task['status']} at {task['node']}{waits}"
    return to_printable(f"{task['id']}  {where}")
