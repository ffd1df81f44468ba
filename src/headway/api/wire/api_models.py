"""Models of request bodies, validated strictly, and of responses.

A response is described only by its model: the encoder of the response and its schema in the OpenAPI
document are derived from the model.

Enumerations are validated with `strict=False`, because a strict model accepts only members of the
enumeration, not their values as JSON text.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from headway.core.command.admin.lane_limits import LIMIT_MAX
from headway.core.command.run.cancel import CancelResult
from headway.core.duration import SECONDS_MAX
from headway.core.ids import Instant
from headway.core.json_encoder import Json, Stored
from headway.core.run.admission import OnConflict
from headway.core.run.run import FilesOnCancel, OnExistingOutput, RunMode
from headway.core.run.status import IDLE_NAME, STATUS_NAMES, RunStatus
from headway.core.run.window import Delivery
from headway.core.schedule import MissedPolicy

Name = Annotated[str, Field(min_length=1, max_length=255)]
Seconds = Annotated[float, Field(gt=0, le=SECONDS_MAX)]
NextCursor = Annotated[
    str | None, Field(description="`cursor` of the next page. Null on the last page.")
]
RowState = Annotated[
    str,
    Field(
        json_schema_extra={
            "enum": [IDLE_NAME, *dict.fromkeys(names.row for names in STATUS_NAMES.values())]
        }
    ),
]
"""The state of a key as the page shows it."""
Timestamp = Annotated[Instant, WithJsonSchema({"type": "string", "format": "date-time"})]
StoredJson = Annotated[Stored | None, WithJsonSchema({})]
"""A stored document, or null. Its secrets are redacted."""


class StrictBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class SubmitBody(StrictBody):
    """A new run."""

    job: Name = Field(examples=["mirror"])
    key: Name | None = Field(
        None,
        description="Runs of a key run one at a time. Without one, the run gets a key of its own.",
        examples=["ann"],
    )
    mode: RunMode = Field(RunMode.START, strict=False)
    params: dict[str, Any] | None = Field(None, examples=[{"url": "https://example.org/feed"}])
    lane: Name | None = Field(None, description="The lane. Default: the lane of the job.")
    on_conflict: OnConflict = Field(
        OnConflict.REJECT, strict=False, description="The policy if the key has an active run."
    )
    on_existing_output: OnExistingOutput | None = Field(
        None, strict=False, description="The policy if the key has output of earlier runs."
    )
    timeout_s: Seconds | None = Field(
        None,
        description="The time limit of the run. Default: the limit of the job. Null: no limit.",
        examples=[1800],
    )
    queue_timeout_s: Seconds | None = None


class CancelBody(StrictBody):
    files: FilesOnCancel = Field(
        FilesOnCancel.KEEP,
        strict=False,
        description="Keep or delete the files that the run has finished.",
    )
    reason: Annotated[str, Field(max_length=1_000)] = Field("", examples=["not needed any more"])


class StopBody(CancelBody):
    key: Name = Field(description="The key whose runs are all canceled.", examples=["ann"])


class MessageBody(StrictBody):
    content: Any = Field(
        description="Any JSON. The job reads it with `ctx.messages()`.", examples=["go on"]
    )
    deliver: Delivery = Field(
        Delivery.NOW,
        strict=False,
        description=(
            "`now`: accept the message only while the run listens. `when_listening`: also accept"
            " it for a run that is queued or does not listen yet, and store it in the run's inbox"
            " until it listens."
        ),
    )


class ResumeBody(BaseModel):
    """An answer to an interrupt. The job receives all members except `call_id`."""

    model_config = ConfigDict(strict=True, extra="allow")

    call_id: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="The `call_id` of the interrupt, from `permission_request`.", examples=["1.1"]
    )
    approved: bool | None = Field(None, examples=[True])


class LaneBody(StrictBody):
    """The limits to change. Absent fields stay as they are."""

    max_concurrent: Annotated[int, Field(ge=0, le=LIMIT_MAX)] | None = Field(
        None, description="Limit of concurrent runs. 0 pauses the lane.", examples=[3]
    )
    max_queued: Annotated[int, Field(ge=-1, le=LIMIT_MAX)] | None = Field(
        None, description="Limit of queued runs. -1 removes the limit.", examples=[100]
    )
    paused: bool | None = Field(None, examples=[False])


class KeyBody(StrictBody):
    job: Name = Field(examples=["mirror"])
    params: dict[str, Any] = Field(
        default_factory=dict, examples=[{"url": "https://example.org/feed"}]
    )


class ScheduleBody(StrictBody):
    paused: bool = Field(
        description="A paused schedule starts no runs. Fire times during a pause are skipped.",
        examples=[True],
    )


class SessionBody(StrictBody):
    token: Annotated[str, Field(max_length=1_000)] = Field(
        description="A token of the server.", examples=["the value of HEADWAY_TOKEN"]
    )


class RunView(BaseModel):
    id: str
    key: str
    job: str
    lane: str
    mode: RunMode
    status: RunStatus
    state: RowState = Field(description="The state of the key as the page shows it.")
    is_waiting: bool = Field(description="True if the run is running but waits without a slot.")
    is_behind: bool = Field(description="True if another run of the key goes first.")
    seq: int
    ready_seq: int | None = Field(
        description="Its order in the lane: the lowest is next. Null if it waits for no slot."
    )
    revision: int
    generation: int
    attempt: int
    unread_count: int
    is_listening: bool = Field(description="True if the job accepts messages now.")
    queued_at: Timestamp
    started_at: Timestamp | None
    ended_at: Timestamp | None
    updated_at: Timestamp = Field(description="When the run last changed.")
    wake_at: Timestamp | None
    run_deadline_at: Timestamp | None
    cancel_deadline_at: Timestamp | None
    continued_from: str | None
    parent_id: str | None
    traceparent: str | None = Field(
        description="The trace in which it was submitted, in W3C Trace Context format."
    )
    params: StoredJson
    progress: StoredJson
    checkpoint: StoredJson
    result: StoredJson
    error: StoredJson
    cancel: StoredJson


class RunDetails(RunView):
    traceback: str | None = Field(
        description="The traceback of the last failed attempt, without secrets. Only the end of a"
        " long one is stored."
    )


class RunPage(BaseModel):
    runs: list[Json[RunView]]
    cursor: NextCursor


class MessageView(BaseModel):
    seq: int
    by: str
    at: Timestamp
    content: StoredJson
    read: bool = Field(description="True if the job has read it.")
    carried: bool = Field(description="True if it was passed on to the run that replaced this one.")


class MessageList(BaseModel):
    messages: list[Json[MessageView]]
    cursor: NextCursor


class FileView(BaseModel):
    path: str = Field(examples=["photos/128.jpg"])
    byte_count: int
    at: Timestamp


class FileList(BaseModel):
    files: list[Json[FileView]]
    cursor: NextCursor


CancelAnswerValue = Annotated[
    CancelResult,
    WithJsonSchema({"type": "string", "enum": ["canceled", "requested", "already_requested"]}),
    Field(
        description="`canceled`: the run has ended. `requested`: it is asked to stop."
        " `already_requested`: it was asked to stop before."
    ),
]


class CancelView(BaseModel):
    answer: CancelAnswerValue
    run: Json[RunView]


class StoppedRunView(BaseModel):
    run_id: str
    answer: CancelAnswerValue


class StopView(BaseModel):
    runs: list[Json[StoppedRunView]] = Field(
        description="The runs of the key that were active. The one that had started is last."
    )


class ExplanationView(BaseModel):
    run_id: str
    status: RunStatus
    gate: str
    sentence: str
    remedy: str
    since: Timestamp | None
    holder_ids: list[str]
    position: int | None
    until: Timestamp | None
    parent_id: str | None


class LaneResponse(BaseModel):
    name: str
    max_concurrent: int
    max_queued: int | None
    paused: bool
    revision: int
    held_count: int
    queued_count: int
    waiting_count: int = Field(description="Running runs that wait without a slot.")


class LaneList(BaseModel):
    lanes: list[Json[LaneResponse]]


class ClearView(BaseModel):
    canceled_count: int = Field(description="Number of queued runs that were canceled.")


class InterruptView(BaseModel):
    """An open interrupt of a run. Answer it with `POST /api/runs/{run_id}/resume`."""

    run_id: str
    call_id: str
    key: str
    job: str
    lane: str
    asked_at: Timestamp
    question: StoredJson
    schema_: Json[dict[str, Any]] | None = Field(
        serialization_alias="schema",
        description="JSON Schema of the answer. Other answers are refused.",
    )
    default: StoredJson = Field(description="The answer that the job gets if none arrives in time.")
    answer_deadline_at: Timestamp = Field(
        description="The time until which the job waits for an answer."
    )


class InterruptList(BaseModel):
    interrupts: list[Json[InterruptView]]
    cursor: NextCursor


class ScheduleView(BaseModel):
    name: str
    expression: str = Field(description="Cron fields: minute, hour, day, month, weekday.")
    time_zone: str
    missed: MissedPolicy
    job: str
    key: str
    lane: str
    params: StoredJson
    decided_until: Timestamp | None = Field(
        description="The last processed fire time. Null if no instance has read the schedule yet."
    )
    next_fire_at: Timestamp | None = Field(description="Null also while the schedule is paused.")
    paused: bool
    revision: int = Field(
        description="Also incremented at each fire time. 0 if there was none yet."
    )


class ScheduleList(BaseModel):
    schedules: list[Json[ScheduleView]]


class InstanceView(BaseModel):
    id: str
    host: str
    pid: int
    started_at: Timestamp
    lease_expires_at: Timestamp


class HolderView(InstanceView):
    run_ids: list[str] = Field(description="Runs that the instance has claimed, at most 100.")


class InstanceList(BaseModel):
    instances: list[Json[HolderView]]


class KeyView(BaseModel):
    key: str
    job: str
    params: StoredJson
    revision: int
    updated_at: Timestamp


class KeyPage(BaseModel):
    keys: list[Json[KeyView]]
    cursor: NextCursor


class JobView(BaseModel):
    name: str
    lane: str
    timeout_s: float | None
    queue_timeout_s: float | None
    retries: int
    parameters: dict[str, Any] = Field(description="JSON Schema of the parameters.")


class JobList(BaseModel):
    jobs: list[Json[JobView]]


class IssueView(BaseModel):
    path: str = Field(examples=["nodes.ship.service"])
    problem: str


class ProblemView(BaseModel):
    """The reason why a request was refused. `code` determines which optional members exist."""

    title: str = Field(description="The reason phrase of the status.", examples=["Conflict"])
    code: str = Field(description="For programs. It is stable.", examples=["key_busy"])
    status: int = Field(examples=[409])
    detail: str = Field(
        description="One sentence, for people.", examples=["key 'ann' already has an active run"]
    )
    path: str | None = Field(None, description="The invalid field.")
    errors: list[IssueView] | None = Field(
        None, description="All errors of the request, each with its field."
    )
    active_run_id: str | None = Field(None, description="The active run that conflicts.")
    run_id: str | None = Field(None, description="The run that the error is about.")
    reason: str | None = Field(
        None,
        description=(
            "The reason why a run accepts no message: `not_started`, `not_streaming`, `compacting`,"
            " `flow_task` or `no_active_run`."
        ),
    )
    can_wait: bool | None = Field(
        None, description='True if `"deliver": "when_listening"` would be accepted.'
    )
    revision: int | None = Field(
        None, description="The current revision. 0 if the resource is not stored."
    )
    lane: str | None = Field(None, description="The lane that is full.")
    flow: str | None = Field(None, description="The unknown flow.")
    version: int | None = Field(None, description="The unknown version of the flow.")
    scope: str | None = Field(None, description="The scope that the call needs.")
    error_id: str | None = Field(None, description="The id of the error in the server log.")


class HealthView(BaseModel):
    status: Literal["ok"]
