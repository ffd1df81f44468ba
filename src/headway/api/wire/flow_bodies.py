"""Request bodies of flows and tasks, and the JSON of flows, tasks and workers."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from headway.api.http.cursor import INT32_MAX
from headway.api.wire.api_models import Name, Seconds, StrictBody
from headway.api.wire.views import format_instant
from headway.core.flow.engine.fields import FLOW_SETTINGS, or_empty
from headway.core.flow.engine.records import SavedFlow
from headway.core.flow.engine.state import NodeRun
from headway.core.ids import Instant
from headway.core.run.admission import TASK_POLICIES, OnConflict
from headway.core.secret import redact_value
from headway.core.worker.saved_worker import LiveWorker
from headway.services.flow.task_view import TaskView
from headway.services.flow.waiting_nodes import AwaitedWorker
from headway.services.flow.workers import HeldCall

TaskConflictPolicy = Annotated[
    OnConflict, WithJsonSchema({"type": "string", "enum": [*map(str, TASK_POLICIES)]})
]


class TaskBody(StrictBody):
    """A new task."""

    params: dict[str, Any] = Field(default_factory=dict, examples=[{"order": 7}])
    version: Annotated[int, Field(ge=1, le=INT32_MAX)] | None = Field(
        None, description="The version of the flow. Default: the published one."
    )
    key: Name | None = Field(
        None,
        description="Runs of a key run one at a time. Without one, the task gets a key of its own.",
        examples=["ann"],
    )
    lane: Name | None = None
    on_conflict: TaskConflictPolicy = Field(
        OnConflict.REJECT, strict=False, description="The policy if the key has an active run."
    )
    timeout_s: Seconds | None = None
    queue_timeout_s: Seconds | None = None


class SignalBody(StrictBody):
    key: Name = Field(examples=["paid"])
    value: Any = Field(
        description="Any JSON. It is set in the task's shared state.", examples=[True]
    )


class ApproveBody(StrictBody):
    answer: bool | Name = Field(
        True, description="True, false, or the name of an action.", examples=[True]
    )


class RerunBody(StrictBody):
    node: Name = Field(description="The node at which the new task starts.", examples=["ship"])


DEFINITION_BODY: Final[dict[str, Any]] = {
    "required": True,
    "description": "A flow definition. `GET /api/flow-schema` returns its complete JSON Schema.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["start", "nodes"],
                "properties": {
                    "start": {
                        "type": "string",
                        "description": "The node at which tasks start.",
                        "examples": ["ask"],
                    },
                    "nodes": {
                        "type": "object",
                        "description": "The nodes by key.",
                        "examples": [
                            {"ask": {"kind": "approval", "params": {"approval_key": "$shared.ok"}}}
                        ],
                    },
                    "edges": {
                        "type": ["array", "null"],
                        "items": {"type": "object"},
                        "examples": [[{"from": "ask", "action": "approved", "to": ""}]],
                    },
                    **{
                        name: or_empty(shape.schema()) | {"description": about}
                        for name, (shape, about) in FLOW_SETTINGS.items()
                    },
                },
            }
        }
    },
}


def flow_view(flow: SavedFlow) -> dict[str, Any]:
    return {
        "name": flow.name,
        "id": flow.id,
        "version": flow.published,
        "latest": flow.latest,
        "revision": flow.revision,
        "digest": flow.digest,
        "created_at": format_instant(flow.created_at),
        "updated_at": format_instant(flow.updated_at),
    }


def task_view(task: TaskView) -> dict[str, Any]:
    return {
        "id": task.id,
        "flow": task.flow,
        "version": task.version,
        "status": task.status.value,
        "key": task.run.key,
        "params": redact_value(task.params),
        "shared": redact_value(task.shared),
        "node": task.node,
        "last_action": task.last_action,
        "step_count": task.step_count,
        "retry_state": task.retry_state,
        "waits_for": task.waits_for,
        "awaited_key": task.awaited_key,
        "awaited_worker": _awaited_worker_view(task.awaited_worker),
        "error": redact_value(task.error),
        "parent_id": task.run.parent_id,
        "rerun_of": task.rerun_of,
        "queued_at": format_instant(task.run.queued_at),
        "started_at": _instant_or_none(task.run.started_at),
        "ended_at": _instant_or_none(task.run.ended_at),
        "updated_at": format_instant(task.updated_at),
    }


def _awaited_worker_view(awaited: AwaitedWorker | None) -> dict[str, Any] | None:
    if awaited is None:
        return None
    return {
        "services": list(awaited.services),
        "since": format_instant(awaited.since),
        "until": format_instant(awaited.until),
    }


def node_run_view(row: NodeRun) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "node": row.node_key,
        "path": list(row.path),
        "branch": row.branch,
        "attempt": row.attempt,
        "status": row.status.value,
        "prep": redact_value(row.prep),
        "input": redact_value(row.input),
        "output": redact_value(row.output),
        "error": row.error,
        "action": row.action,
        "started_at": format_instant(row.started_at),
        "finished_at": format_instant(row.finished_at),
        "worker": None if row.worker is None else {"id": row.worker.id, "url": row.worker.url},
    }


def worker_view(worker: LiveWorker, *, is_alive: bool, calls: Sequence[HeldCall]) -> dict[str, Any]:
    return {
        "id": worker.id,
        "url": worker.url,
        "services": sorted(worker.services),
        "load": worker.load,
        "heartbeat_at": format_instant(worker.heartbeat_at),
        "is_alive": is_alive,
        "calls": [
            {
                "task_id": call.run_id,
                "service": call.service,
                "called_at": format_instant(call.called_at),
            }
            for call in calls
        ],
    }


def _instant_or_none(at: Instant | None) -> str | None:
    return None if at is None else format_instant(at)


def encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
