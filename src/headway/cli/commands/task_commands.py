"""`headway task …`: show, watch and steer tasks of flows."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from cyclopts import Parameter

from headway.cli.client.api_client import Client, quote_segment
from headway.cli.client.open_client import open_client
from headway.cli.commands.flow_commands import parse_json
from headway.cli.commands.run_commands import post_cancel
from headway.cli.exit_codes import EXIT_UNSUCCESSFUL
from headway.cli.options import (
    AppOption,
    DeleteFilesOption,
    IdempotencyKeyOption,
    JsonOption,
    LimitOption,
    ReasonOption,
    TaskIdArgument,
)
from headway.cli.output.printing import (
    format_age,
    print_json,
    print_list,
    print_result,
    shorten,
    to_printable,
)
from headway.core.run.status import RunStatus
from headway.core.run.transitions import TERMINAL

POLL_S: Final = 0.5
ANSWERS: Final[dict[str, bool]] = {"yes": True, "no": False}
PAGE_SIZE: Final = 1_000
"""The number of node runs that are read at once."""
NodeRunsJsonOption = Annotated[
    JsonOption,
    Parameter(
        help="Print JSON, one object per line: each node run, and the task whenever it waits and"
        " when it ends."
    ),
]


async def list_(
    *,
    flow: Annotated[str | None, Parameter(help="Only tasks of this flow.")] = None,
    limit: LimitOption = 50,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """List tasks, most recently changed first."""
    async with open_client(app) as client:
        tasks = await client.list_all("/api/tasks", "tasks", limit=limit, flow=flow)
    headings = ("task", "flow", "state", "node", "waits for", "changed")
    print_list(tasks, headings, _columns, empty="no tasks found", as_json=json)


def _columns(task: Any) -> tuple[Any, ...]:
    flow = f"{task['flow']} v{task['version']}"
    position = (task["node"], task["waits_for"])
    return (task["id"], flow, task["status"], *position, f"{format_age(task['updated_at'])} ago")


async def get(
    task_id: TaskIdArgument, /, *, app: AppOption = None, json: JsonOption = False
) -> None:
    """Show a task and its node runs."""
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


async def watch(
    task_id: TaskIdArgument, /, *, app: AppOption = None, json: NodeRunsJsonOption = False
) -> int:
    """Print the node runs of a task until it ends. Return 0 if it succeeds, else 1."""

    def report(value: Any, line: str) -> None:
        print_json(value) if json else print(line, flush=True)

    seq, reported_node = 0, ""
    async with open_client(app) as client:
        while True:
            # Read the task before its node runs, so that none is missed when it has ended.
            task = await client.get(f"/api/tasks/{quote_segment(task_id)}")
            previous_seq = seq
            async for row in node_runs(client, task_id, after=seq):
                seq = row["seq"]
                report(row, format_node_run(row))
            if task["status"] in TERMINAL:
                report(task, _format_task(task))
                return 0 if task["status"] == RunStatus.SUCCEEDED else EXIT_UNSUCCESSFUL
            # New node runs may have ended the wait that was read. The next poll reads it again.
            waiting_node = task["node"] if task["waits_for"] and seq == previous_seq else ""
            if waiting_node and waiting_node != reported_node:
                report(task, _format_task(task))
            reported_node = waiting_node
            await asyncio.sleep(POLL_S)


async def signal(
    task_id: TaskIdArgument,
    key: str,
    value: str,
    /,
    *,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Set a key of a task's shared state, and wake the task.

    Parameters
    ----------
    key
        The key in the shared state.
    value
        Its value as JSON, such as 5, '"text"' or true.
    """
    body = {"key": key, "value": parse_json(value, field="value")}
    async with open_client(app) as client:
        task = await client.post(f"/api/tasks/{quote_segment(task_id)}/signal", body)
    print_result(task, "accepted", as_json=json)


async def approve(
    task_id: TaskIdArgument,
    answer: str = "yes",
    /,
    *,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Answer the approval that a task waits for.

    Parameters
    ----------
    answer
        `yes`, `no`, or the name of an action.
    """
    body = {"answer": ANSWERS.get(answer, answer)}
    async with open_client(app) as client:
        task = await client.post(f"/api/tasks/{quote_segment(task_id)}/approve", body)
    print_result(task, "answered", as_json=json)


async def cancel(
    task_id: TaskIdArgument,
    /,
    *,
    delete_files: DeleteFilesOption = False,
    reason: ReasonOption = "",
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Cancel a task."""
    path = f"/api/tasks/{quote_segment(task_id)}"
    await post_cancel(path, app, delete_files=delete_files, reason=reason, as_json=json)


async def rerun(
    task_id: TaskIdArgument,
    node: str,
    /,
    *,
    idempotency_key: IdempotencyKeyOption = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """Start a new task at a node of an old task, and print the id of the new task.

    Parameters
    ----------
    node
        The node at which the new task begins.
    """
    async with open_client(app) as client:
        path = f"/api/tasks/{quote_segment(task_id)}/rerun"
        task = await client.start(path, {"node": node}, idempotency_key=idempotency_key)
    print_result(task, task["id"], as_json=json)


async def node_runs(client: Client, task_id: str, *, after: int = 0) -> AsyncIterator[Any]:
    """Yield the node runs with a `seq` above `after`, in the order in which they ended."""
    path = f"/api/tasks/{quote_segment(task_id)}/node-runs"
    has_more = True
    while has_more:  # Ends: a page that has a successor contains at least one row.
        page = await client.get(path, after=after, limit=PAGE_SIZE)
        for row in page["node_runs"]:
            after = row["seq"]
            yield row
        has_more = page["has_more"]


def format_node_run(row: Any) -> str:
    worker = f"  by {to_printable(row['worker']['id'])}" if row["worker"] else ""
    action = f" -> {to_printable(row['action'])}" if row["action"] not in ("", "default") else ""
    result = shorten(row["error"] or row["output"])
    return f"{row['seq']:4}  {node_path(row)}  {row['status']}{action}  {result}{worker}".rstrip()


def node_path(row: Any) -> str:
    """Return the path of a node through its subflows, with its branch: `sub/inner[2]`."""
    is_whole = row["branch"] is None or row["action"] != ""
    branch = "" if is_whole else f"[{row['branch']}]"
    return to_printable("/".join(row["path"])) + branch


def _format_task(task: Any) -> str:
    wait = f", waits for {task['waits_for']}" if task["waits_for"] else ""
    awaited = task.get("awaited_worker")  # Servers of earlier versions do not send it.
    if awaited:
        services = ", ".join(repr(service) for service in awaited["services"])
        wait = f", waits for a worker that offers {services} until {awaited['until']}"
    state = f"{task['flow']} v{task['version']}  {task['status']} at {task['node']}{wait}"
    return to_printable(f"{task['id']}  {state}")
