"""What requests about flows and tasks may say, and how tasks look in answers."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from headway.api.views import instant
from headway.api.wire import Body, Name, Seconds
from headway.core.flow.faults import Fault
from headway.core.flow.kept import SavedFlow
from headway.core.flow.state import NodeRun
from headway.core.ids import Instant
from headway.core.secret import veiled_value
from headway.core.worker.worker import LiveWorker
from headway.services.flow.task_view import TaskView
from headway.services.flow.workers import HeldCall


class TaskBody(Body):
    """A new task."""

    params: dict[str, Any] = Field(default_factory=dict)
    version: Annotated[int, Field(ge=1)] | None = Field(
        None, description="The published one, unless told."
    )
    key: Name | None = None
    lane: Name | None = None
    timeout_s: Seconds | None = None
    queue_timeout_s: Seconds | None = None


class SignalBody(Body):
    key: Name
    value: Any = Field(description="Any JSON: it is set in the task's shared state.")


class ApproveBody(Body):
    answer: bool | Name = Field(True, description="Yes, no, or an action in words.")


class RerunBody(Body):
    node: Name = Field(description="Where the new task begins.")


def flow_view(flow: SavedFlow) -> dict[str, Any]:
    return {
        "name": flow.name,
        "id": flow.id,
        "version": flow.published,
        "latest": flow.latest,
        "revision": flow.revision,
        "etag": flow.etag,
        "created_at": instant(flow.created_at),
        "updated_at": instant(flow.updated_at),
    }


def fault_views(faults: tuple[Fault, ...]) -> list[dict[str, str]]:
    return [{"place": place, "problem": problem} for place, problem in faults]


def task_view(task: TaskView) -> dict[str, Any]:
    return {
        "id": task.id,
        "flow": task.flow,
        "version": task.version,
        "status": task.status.value,
        "key": task.run.key,
        "params": veiled_value(task.params),
        "shared": task.shared,
        "node": task.node,
        "last_action": task.last_action,
        "step_count": task.step_count,
        "retry_state": task.retry_state,
        "waits_for": task.waits_for,
        "awaited_key": task.awaited_key,
        "error": task.error,
        "parent_id": task.run.parent_id,
        "rerun_of": task.rerun_of,
        "queued_at": instant(task.run.queued_at),
        "started_at": _instant_or_none(task.run.started_at),
        "ended_at": _instant_or_none(task.run.ended_at),
        "updated_at": instant(task.updated_at),
    }


def node_run_view(row: NodeRun) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "node": row.node_key,
        "path": list(row.path),
        "branch": row.branch,
        "attempt": row.attempt,
        "status": row.status.value,
        "prep": row.prep,
        "input": row.input,
        "output": row.output,
        "error": row.error,
        "action": row.action,
        "started_at": instant(row.started_at),
        "finished_at": instant(row.finished_at),
        "worker": None if row.worker is None else {"id": row.worker.id, "url": row.worker.url},
    }


def worker_view(worker: LiveWorker, *, is_alive: bool, calls: Sequence[HeldCall]) -> dict[str, Any]:
    return {
        "id": worker.id,
        "url": worker.url,
        "services": sorted(worker.services),
        "load": worker.load,
        "heartbeat_at": instant(worker.heartbeat_at),
        "is_alive": is_alive,
        "calls": [
            {"task_id": one.run_id, "service": one.service, "called_at": instant(one.called_at)}
            for one in calls
        ],
    }


def _instant_or_none(at: Instant | None) -> str | None:
    return None if at is None else instant(at)


def encoded(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
