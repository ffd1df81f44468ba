"""The snapshot as text: thousands of runs, written without keeping anybody else waiting."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, Field

from headway.api.flow_answers import WorkerView
from headway.api.flow_bodies import encoded
from headway.api.views import instance_view, key_view, lane_view, run_view
from headway.api.wire import InstanceView, KeyView, LaneView, RunView
from headway.ports.run_reader import Snapshot

T = TypeVar("T")


class StateView(BaseModel):
    """Everything that is going on, as of one instant of the stream."""

    seq: int = Field(description="The last event that is included: subscribe after it.")
    epoch: int = Field(
        description="Of the database that was asked; another one after a failover: resume with it."
    )
    lanes: list[LaneView]
    keys: list[KeyView]
    runs: list[RunView] = Field(description="The active ones.")
    last_runs: list[RunView] = Field(
        description="Of each saved key the newest that was not refused, and the newest that began."
    )
    instances: list[InstanceView] = Field(description="Programs at work on this database.")
    workers: list[WorkerView] = Field(description="Those that are alive.")


AT_ONCE: Final = 100
"""How many are written before others have their turn."""


async def state_text(found: Snapshot, workers: Sequence[dict[str, Any]]) -> str:
    return (
        f'{{"seq":{found.seq},"epoch":{found.epoch}'
        f',"lanes":{await _written(lane_view, found.lanes)}'
        f',"keys":{await _written(key_view, found.keys)}'
        f',"runs":{await _written(run_view, found.runs)}'
        f',"last_runs":{await _written(run_view, found.last_runs)}'
        f',"instances":{await _written(instance_view, found.instances)}'
        f',"workers":{encoded(workers)}}}'
    )


async def _written(view: Callable[[T], str], items: Sequence[T]) -> str:
    parts: list[str] = []
    for first in range(0, len(items), AT_ONCE):
        parts += map(view, items[first : first + AT_ONCE])
        await asyncio.sleep(0)
    return f"[{','.join(parts)}]"
