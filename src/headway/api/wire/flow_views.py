"""How flows, tasks and workers look in answers, for the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headway.api.wire.api_models import CancelAnswerValue, IssueView, NextCursor, Status

Digest = Annotated[str, Field(description="Of the definition: the same text, the same digest.")]


class FlowView(BaseModel):
    name: str
    id: str
    version: int = Field(description="The one that new tasks get; 0: none is published.")
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
    warnings: list[IssueView] = Field(description="What is suspicious about the definition now.")


class FlowCheckView(BaseModel):
    warnings: list[IssueView]


class PublishedFlowView(BaseModel):
    name: str
    id: str
    version: int
    version_id: str
    revision: int
    digest: Digest
    is_new: bool = Field(description="False: the newest version is this very definition already.")
    warnings: list[IssueView]


class VersionView(BaseModel):
    version: int
    id: str
    status: Literal["published", "draft"]
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
    status: Status
    key: str
    params: dict[str, Any]
    shared: dict[str, Any]
    node: str = Field(description="Where it stands, or stood last.")
    last_action: str
    step_count: int = Field(description="How many node runs it has.")
    retry_state: dict[str, Any]
    waits_for: str | None
    awaited_key: str | None = Field(description="What a signal has to set for it to go on.")
    awaited_worker: AwaitedWorkerView | None = Field(
        description="The wait for a worker that offers the services of its node."
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
    path: list[str] = Field(description="From there inwards, through subflows.")
    branch: int | None
    attempt: int
    status: Literal["ok", "error", "canceled"]
    prep: Any
    input: Any
    output: Any
    error: str
    action: str = Field(description="The one that was followed; empty: the node was not over.")
    started_at: datetime
    finished_at: datetime
    worker: NodeWorkerView | None


class NodeRunList(BaseModel):
    node_runs: list[NodeRunView] = Field(
        description="They go on growing: `?after=` the last one's `seq` brings what is new."
    )
    has_more: bool = Field(description="There are more already, for which there was no room.")


class InFlightCallView(BaseModel):
    task_id: str
    service: str
    called_at: datetime


class WorkerView(BaseModel):
    id: str
    url: str
    services: list[str]
    load: int = Field(description="How many calls it is at work on, as it has told.")
    heartbeat_at: datetime
    is_alive: bool = Field(description="False: it was silent for too long, and gets no calls.")
    calls: list[InFlightCallView] = Field(description="What this server waits for from it.")


class WorkerList(BaseModel):
    workers: list[WorkerView]
