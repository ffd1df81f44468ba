"""The snapshot as text: thousands of runs, written without keeping anybody else waiting."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, Field

from headway.api.routes.event_routes import event_id
from headway.api.wire.api_models import InstanceView, KeyView, LaneResponse, RunView
from headway.api.wire.flow_bodies import encode_json
from headway.api.wire.flow_views import WorkerView
from headway.api.wire.views import instance_view, key_view, lane_view, run_view
from headway.core.run import recent
from headway.ports.run_reader import Snapshot

T = TypeVar("T")


class RecentKeyView(BaseModel):
    key: str
    seq: int = Field(description="The `seq` of its newest run that was not refused.")


class RecentView(BaseModel):
    """The keys with the newest runs, and the rule by which a page keeps the list up to date."""

    keys: list[RecentKeyView] = Field(description="The recent keys, the newest first.")
    has_older: bool = Field(
        description="Whether there are older runs, whose keys may not be listed: see `/api/runs`."
    )
    key_count_max: int = Field(
        description="How many keys the list holds: those of the newest runs."
    )
    event_count_max: int = Field(
        description="At `seq` of the stream a key leaves the list when the `seq` of its newest run"
        " is not above `seq - seq % event_step - event_count_max`."
    )
    event_step: int


class StateView(BaseModel):
    """Everything that is going on, as of one instant of the stream."""

    seq: int = Field(description="The last event that is included: subscribe after it.")
    event_id: str = Field(
        description="The id of that event, for `Last-Event-ID` or `?after=`: the server detects"
        " by it whether a backup was restored since."
    )
    epoch: int = Field(
        description="Of the database that was asked; another one after a failover: resume with it."
    )
    lanes: list[LaneResponse]
    keys: list[KeyView]
    runs: list[RunView] = Field(description="The active ones.")
    last_runs: list[RunView] = Field(
        description="The newest run of each saved or recent key that was not refused, and the"
        " newest that began."
    )
    recent: RecentView = Field(description="The keys that are shown without a saved row.")
    instances: list[InstanceView] = Field(description="Programs at work on this database.")
    workers: list[WorkerView] = Field(description="Those that are alive.")


WRITE_BATCH_COUNT: Final = 100
"""How many are written before others have their turn."""


async def encode_state(found: Snapshot, workers: Sequence[dict[str, Any]]) -> str:
    return (
        f'{{"seq":{found.seq},"event_id":"{event_id(found.seq, found.seq_written_at)}"'
        f',"epoch":{found.epoch}'
        f',"lanes":{await _encode_array(lane_view, found.lanes)}'
        f',"keys":{await _encode_array(key_view, found.keys)}'
        f',"runs":{await _encode_array(run_view, found.runs)}'
        f',"last_runs":{await _encode_array(run_view, found.last_runs)}'
        f',"recent":{_encode_recent(found)}'
        f',"instances":{await _encode_array(instance_view, found.instances)}'
        f',"workers":{encode_json(workers)}}}'
    )


def _encode_recent(found: Snapshot) -> str:
    view = RecentView(
        keys=[RecentKeyView(key=one.key, seq=one.seq) for one in found.recent_keys],
        has_older=found.has_older_keys,
        key_count_max=recent.KEY_COUNT_MAX,
        event_count_max=recent.EVENT_COUNT_MAX,
        event_step=recent.EVENT_STEP,
    )
    return encode_json(view.model_dump())


async def _encode_array(view: Callable[[T], str], items: Sequence[T]) -> str:
    parts: list[str] = []
    for first in range(0, len(items), WRITE_BATCH_COUNT):
        parts += map(view, items[first : first + WRITE_BATCH_COUNT])
        await asyncio.sleep(0)
    return f"[{','.join(parts)}]"
