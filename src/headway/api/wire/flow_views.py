"""Models of flows, tasks and workers in responses, for the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field

from headway.api.wire.api_models import CancelAnswerValue, IssueView, NextCursor
from headway.core.flow.engine.records import VersionStatus
from headway.core.flow.engine.state import NodeRunStatus
from headway.core.run.status import RunStatus

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
    created_at: datetime
    updated_at: datetime


class FlowList(BaseModel):
    flows: list[FlowView]
    cursor: NextCursor


class FlowDetailView(FlowView):
    definition: Any
    warnings: list[IssueView] = Field(description="Suspicious parts of the definition.")


class FlowCheckView(BaseModel):
    warnings: list[IssueView]


class PublishedFlowView(BaseModel):
    name: str
    id: str
    version: int
    version_id: str
    revision: int
    digest: Digest
    is_new: bool = Field(description="False if the newest version already has this definition.")
    warnings: list[IssueView]


class VersionView(BaseModel):
    version: int
    id: str
    status: VersionStatus
    digest: Digest


class VersionList(BaseModel):
    versions: list[VersionView]
    cursor: NextCursor


class AwaitedWorkerView(BaseModel):
    services: list[str] = Field(description="The services for which no worker could be reached.")
    since: datetime
    until: datetime = Field(description="When the wait ends and the call fails.")


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
    awaited_worker: AwaitedWorkerView | None = Field(
        description="The wait for a worker that offers the services of the node."
    )
    error: Any
    parent_id: str | None
    rerun_of: str | None
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime


class TaskCancelView(BaseModel):
    answer: CancelAnswerValue
    task: TaskResponse


class TaskList(BaseModel):
    tasks: list[TaskResponse]
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
    started_at: datetime
    finished_at: datetime
    worker: NodeWorkerView | None


class NodeRunList(BaseModel):
    node_runs: list[NodeRunView] = Field(
        description="In the order of their ends. `?after=` with the last `seq` returns newer ones."
    )
    has_more: bool = Field(description="True if more node runs follow.")


class InFlightCallView(BaseModel):
    task_id: str
    service: str
    called_at: datetime


class WorkerView(BaseModel):
    id: str
    url: str
    services: list[str]
    load: int = Field(description="Number of calls in flight, from its last heartbeat.")
    heartbeat_at: datetime
    is_alive: bool = Field(description="False if its heartbeats have stopped. It gets no calls.")
    calls: list[InFlightCallView] = Field(
        description="Calls of this server that the worker has not answered."
    )


class WorkerList(BaseModel):
    workers: list[WorkerView]
