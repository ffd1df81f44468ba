"""Reads for `headway doctor`. They are paged, and each page shows one instant."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.batch_state import Instance
from headway.core.doctor.run_page import ExaminedRuns
from headway.core.doctor.stream import ExaminedEvents, LaneUsage, StreamExtent


class DoctorReader(Protocol):
    async def extent(self) -> StreamExtent: ...

    async def run_page(self, *, after_seq: int, limit: int) -> ExaminedRuns:
        """Return the runs after `after_seq` in the order of acceptance, with all their rows."""
        ...

    async def event_page(self, *, after_seq: int, limit: int) -> ExaminedEvents:
        """Return the events whose numbers are the next `limit` numbers after `after_seq`.

        Numbers of pruned events do not count. The page is shorter at the end of the stream.
        """
        ...

    async def instances(self) -> Sequence[Instance]:
        """Return all recorded instances, alive or not."""
        ...

    async def lane_uses(self) -> Sequence[LaneUsage]: ...
