"""Models of events in responses: one per event type, and one for the events of jobs.

The models of headway's own events are derived from the payload classes of the core.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model

from headway.api.wire.api_models import RowState, StoredJson, Timestamp
from headway.core.document import Document
from headway.core.event_payloads import PAYLOADS, Payload, Progressed, StateChanged
from headway.core.json_encoder import Json, get_fields
from headway.core.run.events import EventType


class EventFields(BaseModel):
    seq: int
    type: str
    run_id: str | None
    run_seq: int | None
    key: str | None
    lane: str | None
    at: Timestamp


class EncodedEventView(EventFields):
    """An event of any type, as the server encodes it."""

    state: RowState | None = None
    payload: StoredJson


class StateChangedFields(EventFields):
    state: RowState = Field(description="The state of the key as the page shows it.")


class JobEventView(EventFields):
    """An event that a job has emitted."""

    type: str = Field(json_schema_extra={"not": {"enum": [*map(str, EventType)]}})
    payload: Any = Field(description="The value that the job passed to `ctx.emit`.")


def _to_event_model(payload: type[Payload]) -> Any:
    base = StateChangedFields if payload is StateChanged else EventFields
    content = dict[str, Any] if payload is Progressed else _to_model(payload)
    members: dict[str, Any] = {"type": (Literal[payload.type], ...), "payload": (content, ...)}
    name = f"{payload.__name__}Event"
    return create_model(name, __base__=base, __doc__=payload.__doc__, **members)


def _to_model(described: type) -> Any:
    """Return a pydantic model with the fields of a payload, or of an object in a payload."""
    members: dict[str, Any] = {}
    for name, field in get_fields(described).items():
        kind = _to_wire_type(field.type)
        kind = kind | None if field.is_nullable and kind is not Any else kind
        members[name] = (kind, None if field.is_optional else ...)
    config = ConfigDict(alias_generator=lambda name: name.removesuffix("_"))
    name = f"{described.__name__}Payload"
    # The event's model already has the docstring of the payload.
    doc = None if issubclass(described, Payload) else described.__doc__
    return create_model(name, __config__=config, __doc__=doc, **members)


def _to_wire_type(kind: Any) -> Any:
    if kind is Document:
        return Any
    if get_origin(kind) is list:
        return list[_to_wire_type(get_args(kind)[0])]  # type: ignore[misc]
    return _to_model(get_args(kind)[0]) if get_origin(kind) is Json else kind


EVENT_MODELS: Final[dict[EventType, Any]] = {
    event_type: _to_event_model(payload) for event_type, payload in PAYLOADS.items()
}
if TYPE_CHECKING:

    class EventView(RootModel[Any]):
        """An event of headway, discriminated by `type`, or an event of a job."""

else:
    _any_headway_event = Annotated[Union[*EVENT_MODELS.values()], Field(discriminator="type")]
    HeadwayEventView = create_model(
        "HeadwayEventView",
        __base__=RootModel,
        __doc__="An event that headway has written. `type` determines the payload.",
        root=(_any_headway_event, ...),
    )
    EventView = create_model(
        "EventView", __base__=RootModel, root=(HeadwayEventView | JobEventView, ...)
    )


class EventPage(BaseModel):
    events: list[Json[EventView]]
    upto_seq: int = Field(description="The `seq` up to which events were read.")
    event_id: str = Field(
        description="The start of the next page, for `?after=` or `Last-Event-ID`."
    )
    has_more: bool = Field(
        description="True if more events follow, even if none on this page matched the filter."
    )
    epoch: int = Field(description="The epoch of the database, for `?epoch=` of the next page.")
    resync: bool = Field(description="True if events are missing. Load the snapshot again.")


_NUMBER: Final = {"type": "string", "pattern": "^[0-9]+$"}
EVENT_STREAM: Final[dict[str, Any]] = {
    "schema": {
        "type": "string",
        "description": "Blocks of lines, each followed by an empty line.",
        "contentMediaType": "text/event-stream",
        # OpenAPI 3.2 has `itemSchema` for this; 3.1 does not.
        "contentSchema": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {
                        "type": "string",
                        "pattern": "^[0-9]+(-[0-9a-f]+)?$",
                        "description": "The `seq` up to which events were sent, and its mark, for"
                        " `Last-Event-ID`.",
                    },
                    "event": {
                        "type": "string",
                        "description": "The event's `type`, `resync` or `server_closing`.",
                        "examples": ["run_state_changed"],
                    },
                    "data": {
                        "type": "string",
                        "description": "On one line. A block without data only advances the id.",
                        "contentMediaType": "application/json",
                        "contentSchema": {
                            "anyOf": [
                                {"$ref": "#/components/schemas/EventView"},
                                {
                                    "type": "object",
                                    "description": "The data of `resync`: load the snapshot again.",
                                    "required": ["seq"],
                                    "properties": {"seq": {"type": "integer"}},
                                },
                                {"type": "object", "description": "The data of `server_closing`."},
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
