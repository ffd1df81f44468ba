"""Encoders that are derived from classes produce the JSON that the classes describe."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headway.core.document import Document
from headway.core.event_payloads import PAYLOADS, NodeRan, Parked, StateChanged
from headway.core.flow.engine.state import NodeRunStatus
from headway.core.ids import Instant, Key
from headway.core.json_encoder import (
    Json,
    Stored,
    derive_encoder,
    derive_extension,
    derive_object_encoder,
    format_instant,
)
from headway.core.run.events import EventType
from headway.core.run.status import RunStatus


class Color(StrEnum):
    RED = "red"


@dataclass
class Shape:
    name: str
    key: Key | None
    color: Color
    size: int
    weight: float
    is_round: bool
    tags: list[str]
    made_at: Instant
    document: Document
    stored: Stored | None
    parts: list[Json["Shape"]]
    schema_: dict[str, object]
    note: str | None = None


SHAPE = Shape(
    name='"\\\N{SNOWMAN}\n',
    key=None,
    color=Color.RED,
    size=3,
    weight=0.5,
    is_round=True,
    tags=["a", "b"],
    made_at=Instant(1),
    document=Document('{"a": 1}'),
    stored='{"token":{"$secret":"x"}}',
    parts=[],
    schema_={"type": "object"},
)
encode_shape = derive_encoder(Shape)


def test_each_type_is_encoded_to_its_json() -> None:
    assert json.loads(encode_shape(**vars(SHAPE))) == {
        "name": SHAPE.name,
        "key": None,
        "color": "red",
        "size": 3,
        "weight": 0.5,
        "is_round": True,
        "tags": ["a", "b"],
        "made_at": "1970-01-01T00:00:00.000001Z",
        "document": {"a": 1},
        "stored": {"token": {"secret": "set"}},
        "parts": [],
        "schema": {"type": "object"},
    }


def test_object_and_its_fields_as_keywords_are_encoded_to_the_same_json() -> None:
    assert derive_object_encoder(Shape)(SHAPE) == encode_shape(**vars(SHAPE))


def test_field_with_the_default_none_is_omitted_unless_it_is_set() -> None:
    text = encode_shape(**{**vars(SHAPE), "note": "new", "parts": [encode_shape(**vars(SHAPE))]})
    assert json.loads(text)["note"] == "new"
    assert "note" not in json.loads(text)["parts"][0]


@pytest.mark.parametrize("change", [{"extra": 1}, {"name": None}])
def test_missing_and_extra_fields_are_refused(change: dict[str, object]) -> None:
    fields = {name: value for name, value in vars(SHAPE).items() if name not in change}
    with pytest.raises(TypeError):
        encode_shape(**{**fields, **{name: 1 for name in change if name == "extra"}})


def test_extended_encoder_adds_the_fields_of_a_subclass() -> None:
    class Base(BaseModel):
        id: str

    class Extended(Base):
        note: str | None

    base = derive_encoder(Base)(id="}")
    assert json.loads(derive_extension(Extended)(base, note=None)) == {"id": "}", "note": None}


@given(
    st.integers(),
    st.text(),
    st.none() | st.integers(),
    st.sampled_from(NodeRunStatus),
    st.none() | st.text(),
)
def test_encoded_payload_contains_exactly_its_fields(
    seq: int, node: str, branch: int | None, status: NodeRunStatus, worker: str | None
) -> None:
    payload = NodeRan(seq, node, branch, 1, status, "", node, worker)
    assert json.loads(payload.encode()) == asdict(payload)


def test_payload_has_only_the_optional_members_that_are_set() -> None:
    assert Parked().encode() == "{}"
    assert json.loads(Parked(stop_count=0).encode()) == {"stop_count": 0}
    changed = StateChanged(None, RunStatus.QUEUED, forced=False)
    assert json.loads(changed.encode()) == {"from": None, "to": "queued", "forced": False}


def test_every_event_type_has_a_payload() -> None:
    assert set(PAYLOADS) == set(EventType)


def test_instant_has_microseconds() -> None:
    assert format_instant(Instant(1_767_225_600_000_000)) == "2026-01-01T00:00:00.000000Z"
