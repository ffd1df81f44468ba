"""What requests may say, checked strictly, and what answers look like, for the OpenAPI document."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from headway.core.command.admin.set_lane import LIMIT_MAX
from headway.core.duration import SECONDS_MAX

Name = Annotated[str, Field(min_length=1, max_length=255)]
Seconds = Annotated[float, Field(gt=0, le=SECONDS_MAX)]
Status = Literal[
    "queued", "running", "cancelling", "succeeded", "failed", "canceled", "timed_out", "rejected"
]
NextCursor = Annotated[
    str | None, Field(description="`cursor` of the next page; null: there is no more.")
]
RowState = Literal["Idle", "Queued", "Running", "Done", "Failed", "Cancelled"]


class StrictBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class SubmitBody(StrictBody):
    """A new run."""

    job: Name = Field(examples=["mirror"])
    key: Name | None = Field(
        None, description="What must be serial. Without one, the run is its own.", examples=["ann"]
    )
    mode: Literal["start", "continue"] = "start"
    params: dict[str, Any] | None = Field(None, examples=[{"url": "https://example.org/feed"}])
    lane: Name | None = Field(None, description="Another lane than the job's own.")
    on_conflict: Literal["reject", "enqueue", "replace", "steer", "join"] = Field(
        "reject", description="What to do when the key has an active run."
    )
    on_existing_output: Literal["ask", "replace", "archive", "delete"] | None = Field(
        None, description="What becomes of the key's earlier output when a run starts."
    )
    timeout_s: Seconds | None = Field(
        None,
        description="How long it may take. Default: the limit of its job. null: no limit.",
        examples=[1800],
    )
    queue_timeout_s: Seconds | None = None


class CancelBody(StrictBody):
    files: Literal["keep", "delete"] = Field(
        "keep", description="What becomes of the files that the run has finished."
    )
    reason: Annotated[str, Field(max_length=1_000)] = Field("", examples=["not needed any more"])


class StopBody(CancelBody):
    key: Name = Field(description="All runs of this key are cancelled.", examples=["ann"])


class MessageBody(StrictBody):
    content: Any = Field(
        description="Any JSON: the job finds it in `ctx.messages()`.", examples=["go on"]
    )
    deliver: Literal["now", "when_listening"] = Field(
        "now",
        description=(
            "`now`: accept it only while the run listens. `when_listening`: also accept it for a"
            " run that is queued or does not listen yet, and store it in its inbox until it does."
        ),
    )


class ResumeBody(BaseModel):
    """An answer: everything but `call_id` is handed to the job."""

    model_config = ConfigDict(strict=True, extra="allow")

    call_id: Annotated[str, Field(min_length=1, max_length=64)] = Field(
        description="Of the question, as `permission_request` has told it.", examples=["1.1"]
    )
    approved: bool | None = Field(None, examples=[True])


class LaneBody(StrictBody):
    """What is left out stays as it is."""

    max_concurrent: Annotated[int, Field(ge=0, le=LIMIT_MAX)] | None = Field(
        None, description="How many runs at once; 0 pauses the lane.", examples=[3]
    )
    max_queued: Annotated[int, Field(ge=-1, le=LIMIT_MAX)] | None = Field(
        None, description="How many may wait; -1 lifts the limit.", examples=[100]
    )
    paused: bool | None = Field(None, examples=[False])


class KeyBody(StrictBody):
    job: Name = Field(examples=["mirror"])
    params: dict[str, Any] = Field(
        default_factory=dict, examples=[{"url": "https://example.org/feed"}]
    )


class ScheduleBody(StrictBody):
    paused: bool = Field(
        description="While it is, no slot comes. Afterwards slots count from that instant.",
        examples=[True],
    )


class SessionBody(StrictBody):
    token: Annotated[str, Field(max_length=1_000)] = Field(
        description="Of the server's.", examples=["what HEADWAY_TOKEN says"]
    )


class RunView(BaseModel):
    id: str
    key: str
    job: str
    lane: str
    mode: Literal["start", "continue"]
    status: Status
    state: RowState = Field(description="As a person sees it in the row of the key.")
    is_waiting: bool = Field(description="It runs, and has given its slot to others meanwhile.")
    is_behind: bool = Field(description="Another run of its key goes first.")
    seq: int
    ready_seq: int | None = Field(
        description="Its place in the lane: the lowest is next. Null: it waits for no slot."
    )
    revision: int
    generation: int
    attempt: int
    unread_count: int
    is_listening: bool = Field(description="Whether its job accepts messages now.")
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime = Field(description="When the run last changed.")
    wake_at: datetime | None
    run_deadline_at: datetime | None
    cancel_deadline_at: datetime | None
    continued_from: str | None
    parent_id: str | None
    traceparent: str | None = Field(
        description="The trace in which it was submitted, as W3C Trace Context writes it."
    )
    params: Any
    progress: Any
    checkpoint: Any
    result: Any
    error: Any
    cancel: Any


class RunDetails(RunView):
    traceback: str | None = Field(
        description="The traceback of the last failed attempt, without secrets. Only the end of a"
        " long one is stored."
    )


class RunPage(BaseModel):
    runs: list[RunView]
    cursor: NextCursor


class MessageView(BaseModel):
    seq: int
    by: str
    at: datetime
    content: Any
    read: bool = Field(description="Whether the job has read it.")
    carried: bool = Field(description="Whether it was carried to the run that replaced this one.")


class MessageList(BaseModel):
    messages: list[MessageView]
    cursor: NextCursor


class FileView(BaseModel):
    path: str = Field(examples=["photos/128.jpg"])
    byte_count: int
    at: datetime


class FileList(BaseModel):
    files: list[FileView]
    cursor: NextCursor


CancelAnswerValue = Annotated[
    Literal["canceled", "requested", "already_requested"],
    Field(description="Over already, to unwind yet, or asked for before."),
]


class CancelView(BaseModel):
    answer: CancelAnswerValue
    run: RunView


class StoppedRunView(BaseModel):
    run_id: str
    answer: CancelAnswerValue


class StopView(BaseModel):
    runs: list[StoppedRunView] = Field(
        description="Every run of the key that was active; the one that had started comes last."
    )


class ExplanationView(BaseModel):
    run_id: str
    status: Status
    gate: str
    sentence: str
    remedy: str
    since: datetime | None
    holder_ids: list[str]
    position: int | None
    until: datetime | None
    parent_id: str | None


class LaneResponse(BaseModel):
    name: str
    max_concurrent: int
    max_queued: int | None
    paused: bool
    revision: int
    held_count: int
    queued_count: int
    waiting_count: int = Field(description="Runs that run, and have given their slot to others.")


class LaneList(BaseModel):
    lanes: list[LaneResponse]


class ClearView(BaseModel):
    canceled_count: int = Field(description="Runs that waited, and will never start.")


class InterruptView(BaseModel):
    """What a run asks and nobody has answered; answer with `POST /api/runs/{run_id}/resume`."""

    run_id: str
    call_id: str
    key: str
    job: str
    lane: str
    asked_at: datetime
    question: Any
    schema_: dict[str, Any] | None = Field(
        alias="schema", description="A JSON Schema: an answer that does not fit is refused."
    )
    default: Any = Field(description="With what the job goes on when nobody answers in time.")
    answer_deadline_at: datetime = Field(description="When the job waits no longer.")


class InterruptList(BaseModel):
    interrupts: list[InterruptView]
    cursor: NextCursor


class ScheduleView(BaseModel):
    name: str
    expression: str = Field(description="Minute, hour, day, month, weekday.")
    time_zone: str
    missed: Literal["skip", "once"]
    job: str
    key: str
    lane: str
    params: Any
    decided_until: datetime | None = Field(description="Null: no instance has looked at it yet.")
    next_fire_at: datetime | None = Field(description="Null also while it is paused.")
    paused: bool
    revision: int = Field(description="One more with each slot, too; 0: there was none yet.")


class ScheduleList(BaseModel):
    schedules: list[ScheduleView]


class InstanceView(BaseModel):
    id: str
    host: str
    pid: int
    started_at: datetime
    lease_expires_at: datetime


class HolderView(InstanceView):
    run_ids: list[str] = Field(description="Runs that it has claimed, at most a hundred of them.")


class InstanceList(BaseModel):
    instances: list[HolderView]


class KeyView(BaseModel):
    key: str
    job: str
    params: Any
    revision: int
    updated_at: datetime


class KeyPage(BaseModel):
    keys: list[KeyView]
    cursor: NextCursor


class JobView(BaseModel):
    name: str
    lane: str
    timeout_s: float | None
    queue_timeout_s: float | None
    retries: int
    parameters: dict[str, Any] = Field(description="JSON Schema of the parameters.")


class JobList(BaseModel):
    jobs: list[JobView]


class EventView(BaseModel):
    seq: int
    type: str
    run_id: str | None
    run_seq: int | None
    key: str | None
    lane: str | None
    at: datetime
    state: RowState | None = None
    payload: Any


class EventPage(BaseModel):
    events: list[EventView]
    upto_seq: int = Field(description="The `seq` up to which events were read.")
    event_id: str = Field(description="Where the next page begins: `?after=`, or `Last-Event-ID`.")
    has_more: bool = Field(
        description="There is more to look at already, also if nothing here was wanted."
    )
    epoch: int = Field(description="Of the database that was read, for the next page: `?epoch=`.")
    resync: bool = Field(description="Events are missing: take the snapshot again.")


_NUMBER: Final = {"type": "string", "pattern": "^[0-9]+$"}
EVENT_STREAM: Final[dict[str, Any]] = {
    "schema": {
        "type": "string",
        "description": "Blocks of lines, each with an empty line behind it.",
        "contentMediaType": "text/event-stream",
        # What OpenAPI 3.2 has `itemSchema` for, in words that 3.1 knows.
        "contentSchema": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {
                        "type": "string",
                        "pattern": "^[0-9]+(-[0-9a-f]+)?$",
                        "description": "The `seq` up to which events were sent, and a mark of that"
                        " event, for `Last-Event-ID`.",
                    },
                    "event": {
                        "type": "string",
                        "description": "The event's `type`, `resync` or `server_closing`.",
                        "examples": ["run_state_changed"],
                    },
                    "data": {
                        "type": "string",
                        "description": "On one line; a block without it only moves the id.",
                        "contentMediaType": "application/json",
                        "contentSchema": {
                            "anyOf": [
                                {"$ref": "#/components/schemas/EventView"},
                                {
                                    "type": "object",
                                    "description": "Of `resync`: the snapshot is needed again.",
                                    "required": ["seq"],
                                    "properties": {"seq": {"type": "integer"}},
                                },
                                {"type": "object", "description": "Of `server_closing`."},
                            ]
                        },
                    },
                    "retry": {"type": "integer", "description": "In milliseconds."},
                    "epoch": {
                        **_NUMBER,
                        "description": "In the first block and with `resync`: for `?epoch=`.",
                    },
                },
            },
        },
    },
    "example": (
        "retry: 1000\nepoch: 1\nid: 41-64752ea0c1a80\n\n"
        "id: 42-64752ea0c1b07\nevent: run_state_changed\n"
        'data: {"seq":42,"type":"run_state_changed",'
        '"run_id":"0199c3f2-7c1e-7a55-9d0b-2f6f2f1f9a10","run_seq":2,"key":"ann","lane":"main",'
        '"at":"2026-01-01T12:00:00Z","state":"Running",'
        '"payload":{"from":"queued","to":"running"}}\n\n'
        ": ping\nid: 42-64752ea0c1b07\n\n"
    ),
}


class IssueView(BaseModel):
    place: str = Field(examples=["nodes.ship.service"])
    problem: str


class ProblemView(BaseModel):
    """Why something is not done; `code` says which of the other members are there."""

    title: str = Field(description="The status in words.", examples=["Conflict"])
    code: str = Field(description="For programs; it does not change.", examples=["key_busy"])
    status: int = Field(examples=[409])
    detail: str = Field(
        description="One sentence, for people.", examples=["key 'ann' already has an active run"]
    )
    place: str | None = Field(None, description="Which words cannot be taken.")
    faults: list[IssueView] | None = Field(None, description="All that cannot, each by its place.")
    active_run_id: str | None = Field(None, description="The run that is in the way.")
    run_id: str | None = Field(None, description="The run that it is about.")
    reason: str | None = Field(
        None,
        description=(
            "Why a run accepts no message: `not_started`, `not_streaming`, `compacting`,"
            " `flow_task` or `no_active_run`."
        ),
    )
    can_wait: bool | None = Field(
        None, description='Whether `"deliver": "when_listening"` would be accepted.'
    )
    revision: int | None = Field(None, description="At which it is now; 0: there is none.")
    lane: str | None = Field(None, description="The lane that is full.")
    flow: str | None = Field(None, description="The flow that is not there.")
    version: int | None = Field(None, description="The version of it.")
    scope: str | None = Field(None, description="What the token would have to be good for.")
    error_id: str | None = Field(None, description="Under which the server's log tells more.")


class HealthView(BaseModel):
    status: Literal["ok"]
