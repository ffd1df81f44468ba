"""`headway task …`: tasks of flows in this database."""

import asyncio
import json as jsonlib

from headway.bootstrap import opened_flows
from headway.cli.flow import parsed
from headway.core.flow.state import NodeRun
from headway.services.flow.task_view import TaskView
from headway.settings import load_settings

WATCH_S = 0.5


async def list_tasks(*, flow: str | None = None, limit: int = 50, json: bool = False) -> None:
    """The tasks that moved last.

    Parameters
    ----------
    flow
        Only those of this flow.
    limit
        At most so many.
    json
        Print one JSON object for each.
    """
    async with opened_flows(load_settings().urls) as flows:
        for task in await flows.tasks(flow=flow, limit=limit):
            print(jsonlib.dumps(_presented(task)) if json else _line(task))


async def get(task_id: str, /, *, json: bool = False) -> None:
    """A task with its node runs.

    Parameters
    ----------
    task_id
        The task.
    json
        Print one JSON object instead of lines.
    """
    async with opened_flows(load_settings().urls) as flows:
        task = await flows.task(task_id)
        rows = await flows.node_runs(task_id)
    if json:
        told = _presented(task) | {"node_runs": [_row(row) for row in rows]}
        print(jsonlib.dumps(told, ensure_ascii=False))
        return
    print(_line(task))
    print(jsonlib.dumps(task.shared, ensure_ascii=False))
    for row in rows:
        print(_row_line(row))


async def watch(task_id: str, /) -> None:
    """Print what its nodes do, until it is over.

    Parameters
    ----------
    task_id
        The task.
    """
    seq = 0
    async with opened_flows(load_settings().urls) as flows:
        while True:  # Until it is over.
            task = await flows.task(task_id)  # Before its node runs, so that none is missed.
            for row in await flows.node_runs(task_id, after_seq=seq):
                seq = row.seq
                print(_row_line(row), flush=True)
            if not task.run.is_active:
                print(_line(task))
                return
            await asyncio.sleep(WATCH_S)


async def signal(task_id: str, key: str, value: str, /) -> None:
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
    async with opened_flows(load_settings().urls) as flows:
        await flows.signal(task_id, key, parsed(value, place="value"))


async def approve(task_id: str, answer: str = "yes", /) -> None:
    """Answer the approval that a task waits for.

    Parameters
    ----------
    task_id
        The task.
    answer
        `yes`, `no`, or an action in words.
    """
    given: bool | str = {"yes": True, "no": False}.get(answer, answer)
    async with opened_flows(load_settings().urls) as flows:
        await flows.approve(task_id, given)


async def cancel(task_id: str, /, *, reason: str = "") -> None:
    """Ask for the end of a task.

    Parameters
    ----------
    task_id
        The task.
    reason
        Why; it is kept with the task.
    """
    async with opened_flows(load_settings().urls) as flows:
        await flows.task(task_id)
        print(await flows.handle(task_id).cancel(reason=reason))


async def rerun(task_id: str, node: str, /) -> None:
    """Start a new task that begins at a node with the shared state of an old one; print its id.

    Parameters
    ----------
    task_id
        The old task.
    node
        Where the new one begins.
    """
    async with opened_flows(load_settings().urls) as flows:
        print((await flows.rerun(task_id, node)).id)


def _line(task: TaskView) -> str:
    waits = f", waits for {task.waits_for}" if task.waits_for else ""
    return f"{task.id}  {task.flow} v{task.version}  {task.status.value} at {task.node}{waits}"


def _row_line(row: NodeRun) -> str:
    place = "/".join(row.path) + ("" if row.branch is None else f"[{row.branch}]")
    said = row.error or jsonlib.dumps(row.output, ensure_ascii=False)
    by = f"  by {row.worker.id}" if row.worker else ""
    return f"{row.seq:4}  {place}  {row.status.value}  {said[:200]}{by}"


def _row(row: NodeRun) -> dict[str, object]:
    return {
        "seq": row.seq,
        "node": "/".join(row.path),
        "branch": row.branch,
        "attempt": row.attempt,
        "status": row.status.value,
        "output": row.output,
        "error": row.error,
        "action": row.action,
    }


def _presented(task: TaskView) -> dict[str, object]:
    return {
        "id": task.id,
        "flow": task.flow,
        "version": task.version,
        "status": task.status.value,
        "node": task.node,
        "waits_for": task.waits_for,
        "params": task.params,
        "shared": task.shared,
    }
