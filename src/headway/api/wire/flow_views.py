"""Response models of flows, tasks and workers, and functions that encode them as JSON."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field

from headway.api.wire.api_models import CancelAnswerValue, IssueView, NextCursor, Timestamp
from headway.core.flow.engine.records import SavedFlow, VersionStatus
from headway.core.flow.engine.state import NodeRun, NodeRunStatus
from headway.core.json_encoder import Json, derive_encoder, derive_extension
from headway.core.run.status import RunStatus
from headway.core.secret import redact_value
from headway.core.worker.saved_worker import LiveWorker
from headway.services.flow.task_view import TaskView
from headway.services.flow.workers import HeldCall

Digest = Annotated[
    str, Field(description="Digest of the definition. Equal definitions have equal digests.")
]


class FlowView(BaseModel):
    name: str
    id: str
    version: int = Field(description="The version that new tasks use. 0 if none is published.")
    latest: int
    revision: int
    digest: Digest
    created_at: Timestamp
    updated_at: Timestamp


class FlowList(BaseModel):
    flows: list[Json[FlowView]]
    cursor: NextCursor


class FlowDetailView(FlowView):
    definition: Json[Any]
    warnings: list[Json[IssueView]] = Field(description="Suspicious parts of the definition.")


class FlowCheckView(BaseModel):
    warnings: list[Json[IssueView]]


class PublishedFlowView(BaseModel):
    name: str
    id: str
    version: int
    version_id: str
    revision: int
    digest: Digest
    is_new: bool = Field(description="False if the newest version already has this definition.")
    warnings: list[Json[IssueView]]


class VersionView(BaseModel):
    version: int
    id: str
    status: VersionStatus
    digest: Digest


class VersionList(BaseModel):
    versions: list[Json[VersionView]]
    cursor: NextCursor


class AwaitedWorkerView(BaseModel):
    services: list[str] = Field(description="The services for which no worker could be reached.")
    since: Timestamp
    until: Timestamp = Field(description="When the wait ends and the call fails.")


class TaskResponse(BaseModel):
    id: str
    flow: str
    version: int
    status: RunStatus
    key: str
    params: dict[str, Any]
    shared: dict[str, Any]
    node: str = Field(description="The current node, or the last one if the task has ended.")
    last_action: str
    step_count: int = Field(description="Number of node runs of the task.")
    retry_state: dict[str, Any]
    waits_for: str | None
    awaited_key: str | None = Field(
        description="The shared key that a signal must set to continue the task."
    )
    awaited_worker: Json[AwaitedWorkerView] | None = Field(
        description="The wait for a worker that offers the services of the node."
    )
    error: Any
    parent_id: str | None
    rerun_of: str | None
    queued_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None
    updated_at: Timestamp


class TaskCancelView(BaseModel):
    answer: CancelAnswerValue
    task: Json[TaskResponse]


class TaskList(BaseModel):
    tasks: list[Json[TaskResponse]]
    cursor: NextCursor


class NodeWorkerView(BaseModel):
    id: str
    url: str


class NodeRunView(BaseModel):
    seq: int
    node: str
    path: list[str] = Field(description="From that node inwards, through subflows.")
    branch: int | None
    attempt: int
    status: NodeRunStatus
    prep: Any
    input: Any
    output: Any
    error: str
    action: str = Field(
        description="The action that was followed. Empty if the node had not finished."
    )
    started_at: Timestamp
    finished_at: Timestamp
    worker: Json[NodeWorkerView] | None


class NodeRunList(BaseModel):
    node_runs: list[Json[NodeRunView]] = Field(
        description="In the order of their ends. `?after=` with the last `seq` returns newer ones."
    )
    has_more: bool = Field(description="True if more node runs follow.")


class InFlightCallView(BaseModel):
    task_id: str
    service: str
    called_at: Timestamp


class WorkerView(BaseModel):
    id: str
    url: str
    services: list[str]
    load: int = Field(description="Number of calls in flight, from its last heartbeat.")
    heartbeat_at: Timestamp
    is_alive: bool = Field(description="False if its heartbeats have stopped. It gets no calls.")
    calls: list[Json[InFlightCallView]] = Field(
        description="Calls of this server that the worker has not answered."
    )


class WorkerList(BaseModel):
    workers: list[Json[WorkerView]]


_encode_flow: Final = derive_encoder(FlowView)
_encode_issue: Final = derive_encoder(IssueView)
_encode_task: Final = derive_encoder(TaskResponse)
_encode_awaited_worker: Final = derive_encoder(AwaitedWorkerView)
_encode_node_run: Final = derive_encoder(NodeRunView)
_encode_node_worker: Final = derive_encoder(NodeWorkerView)
_encode_worker: Final = derive_encoder(WorkerView)
_encode_call: Final = derive_encoder(InFlightCallView)
extend_flow: Final = derive_extension(FlowDetailView)
encode_check: Final = derive_encoder(FlowCheckView)
encode_published: Final = derive_encoder(PublishedFlowView)
encode_version: Final = derive_encoder(VersionView)
encode_task_cancel: Final = derive_encoder(TaskCancelView)
encode_node_run_list: Final = derive_encoder(NodeRunList)
encode_worker_list: Final = derive_encoder(WorkerList)


def flow_view(flow: SavedFlow) -> Json[FlowView]:
    return _encode_flow(
        name=flow.name,
        id=flow.id,
        version=flow.published,
        latest=flow.latest,
        revision=flow.revision,
        digest=flow.digest,
        created_at=flow.created_at,
        updated_at=flow.updated_at,
    )


def encode_issues(issues: Iterable[tuple[str, str]]) -> list[Json[IssueView]]:
    return [_encode_issue(path=path, problem=problem) for path, problem in issues]


def task_view(task: TaskView) -> Json[TaskResponse]:
    awaited = task.awaited_worker
    return _encode_task(
        id=task.id,
        flow=task.flow,
        version=task.version,
        status=task.status,
        key=task.run.key,
        params=redact_value(task.params),
        shared=redact_value(task.shared),
        node=task.node,
        last_action=task.last_action,
        step_count=task.step_count,
        retry_state=task.retry_state,
        waits_for=task.waits_for,
        awaited_key=task.awaited_key,
        awaited_worker=None
        if awaited is None
        else _encode_awaited_worker(
            services=list(awaited.services), since=awaited.since, until=awaited.until
        ),
        error=redact_value(task.error),
        parent_id=task.run.parent_id,
        rerun_of=task.rerun_of,
        queued_at=task.run.queued_at,
        started_at=task.run.started_at,
        ended_at=task.run.ended_at,
        updated_at=task.updated_at,
    )


def node_run_view(row: NodeRun) -> Json[NodeRunView]:
    worker = row.worker
    return _encode_node_run(
        seq=row.seq,
        node=row.node_key,
        path=list(row.path),
        branch=row.branch,
        attempt=row.attempt,
        status=row.status,
        prep=redact_value(row.prep),
        input=redact_value(row.input),
        output=redact_value(row.output),
        error=row.error,
        action=row.action,
        started_at=row.started_at,
        finished_at=row.finished_at,
        worker=None if worker is None else _encode_node_worker(id=worker.id, url=worker.url),
    )


def worker_view(
    worker: LiveWorker, *, is_alive: bool, calls: Sequence[HeldCall]
) -> Json[WorkerView]:
    return _encode_worker(
        id=worker.id,
        url=worker.url,
        services=sorted(worker.services),
        load=worker.load,
        heartbeat_at=worker.heartbeat_at,
        is_alive=is_alive,
        calls=[
            _encode_call(task_id=call.run_id, service=call.service, called_at=call.called_at)
            for call in calls
        ],
    )
