"""The snapshot of the current state as JSON text.

It may contain thousands of runs, so the encoder yields to other tasks regularly.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, Field

from headway.api.routes.event_routes import event_id
from headway.api.wire.api_models import InstanceView, KeyView, LaneResponse, RunView
from headway.api.wire.flow_views import WorkerView
from headway.api.wire.views import instance_view, key_view, lane_view, run_view
from headway.core.json_encoder import Json, derive_encoder
from headway.core.run import recent
from headway.ports.run_reader import Snapshot

T = TypeVar("T")
V = TypeVar("V")


class RecentKeyView(BaseModel):
    key: str
    seq: int = Field(description="The `seq` of its newest run that was not rejected.")


class RecentView(BaseModel):
    """The keys with the newest runs, and the rule for clients to keep the list up to date."""

    keys: list[Json[RecentKeyView]] = Field(description="The recent keys, the newest first.")
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
    lanes: list[Json[LaneResponse]]
    keys: list[Json[KeyView]]
    runs: list[Json[RunView]] = Field(description="The active runs.")
    last_runs: list[Json[RunView]] = Field(
        description="For each saved or recent key, its newest run that was not rejected and its"
        " newest run that started."
    )
    recent: Json[RecentView] = Field(
        description="The recent keys, which are shown even if they are not saved."
    )
    instances: list[Json[InstanceView]] = Field(description="The instances on this database.")
    workers: list[Json[WorkerView]] = Field(description="The workers that are alive.")


WRITE_BATCH_COUNT: Final = 100
"""The number of items that are encoded before other tasks run."""


_encode_state: Final = derive_encoder(StateView)
_encode_recent: Final = derive_encoder(RecentView)
_encode_recent_key: Final = derive_encoder(RecentKeyView)


async def encode_state(snapshot: Snapshot, workers: list[Json[WorkerView]]) -> Json[StateView]:
    return _encode_state(
        seq=snapshot.seq,
        event_id=event_id(snapshot.seq, snapshot.seq_written_at),
        epoch=snapshot.epoch,
        lanes=await _encode_all(lane_view, snapshot.lanes),
        keys=await _encode_all(key_view, snapshot.keys),
        runs=await _encode_all(run_view, snapshot.runs),
        last_runs=await _encode_all(run_view, snapshot.last_runs),
        recent=_recent_view(snapshot),
        instances=await _encode_all(instance_view, snapshot.instances),
        workers=workers,
    )


def _recent_view(snapshot: Snapshot) -> Json[RecentView]:
    return _encode_recent(
        keys=[_encode_recent_key(key=key, seq=seq) for key, seq in snapshot.recent_keys],
        has_older=snapshot.has_older_keys,
        key_count_max=recent.KEY_COUNT_MAX,
        event_count_max=recent.EVENT_COUNT_MAX,
        event_step=recent.EVENT_STEP,
    )


async def _encode_all(view: Callable[[T], Json[V]], items: Sequence[T]) -> list[Json[V]]:
    texts: list[Json[V]] = []
    for first in range(0, len(items), WRITE_BATCH_COUNT):
        texts += map(view, items[first : first + WRITE_BATCH_COUNT])
        await asyncio.sleep(0)
    return texts
