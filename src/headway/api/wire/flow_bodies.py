"""Request bodies of flows and tasks."""

from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from headway.api.http.cursor import INT32_MAX
from headway.api.wire.api_models import Name, Seconds, StrictBody
from headway.core.flow.engine.fields import FLOW_SETTINGS, or_empty
from headway.core.run.admission import TASK_POLICIES, OnConflict

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
