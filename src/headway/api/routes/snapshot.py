"""The snapshot as JSON text. Encoding thousands of runs yields to other tasks regularly."""

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
    seq: int = Field(description="The `seq` of its newest run that was not rejected.")


class RecentView(BaseModel):
    """The keys with the newest runs, and the rule for clients to keep the list up to date."""

    keys: list[RecentKeyView] = Field(description="The recent keys, the newest first.")
    has_older: bool = Field(
        description="True if older runs exist whose keys may not be listed; see `/api/runs`."
    )
    key_count_max: int = Field(description="Limit of the list. It has the keys of the newest runs.")
    event_count_max: int = Field(
        description="At `seq` of the stream, remove a key from the list if the `seq` of its newest"
        " run is not above `seq - seq % event_step - event_count_max`."
    )
    event_step: int


class StateView(BaseModel):
    """The whole current state, as of one event of the stream."""

    seq: int = Field(description="The last event that is included. Follow the events after it.")
    event_id: str = Field(
        description="The id of that event, for `Last-Event-ID` or `?after=`. With it, the server"
        " detects that a backup was restored since."
    )
    epoch: int = Field(
        description="The epoch of the database, for `?epoch=`. It changes after a failover."
    )
    lanes: list[LaneResponse]
    keys: list[KeyView]
    runs: list[RunView] = Field(description="The active runs.")
    last_runs: list[RunView] = Field(
        description="For each saved or recent key, its newest run that was not rejected and its"
        " newest run that started."
    )
    recent: RecentView = Field(
        description="The recent keys, which are shown even if they are not saved."
    )
    instances: list[InstanceView] = Field(description="The instances on this database.")
    workers: list[WorkerView] = Field(description="The workers that are alive.")


WRITE_BATCH_COUNT: Final = 100
"""Number of items that are encoded before other tasks run."""


async def encode_state(snapshot: Snapshot, workers: Sequence[dict[str, Any]]) -> str:
    return (
        f'{{"seq":{snapshot.seq},"event_id":"{event_id(snapshot.seq, snapshot.seq_written_at)}"'
        f',"epoch":{snapshot.epoch}'
        f',"lanes":{await _encode_array(lane_view, snapshot.lanes)}'
        f',"keys":{await _encode_array(key_view, snapshot.keys)}'
        f',"runs":{await _encode_array(run_view, snapshot.runs)}'
        f',"last_runs":{await _encode_array(run_view, snapshot.last_runs)}'
        f',"recent":{_encode_recent(snapshot)}'
        f',"instances":{await _encode_array(instance_view, snapshot.instances)}'
        f',"workers":{encode_json(workers)}}}'
    )


def _encode_recent(snapshot: Snapshot) -> str:
    view = RecentView(
        keys=[
            RecentKeyView(key=recent_key.key, seq=recent_key.seq)
            for recent_key in snapshot.recent_keys
        ],
        has_older=snapshot.has_older_keys,
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
