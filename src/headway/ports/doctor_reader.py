"""Reads of `headway doctor`. They are paged, and each page is as of one instant."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.batch_state import Instance
from headway.core.doctor.run_page import ExaminedRuns
from headway.core.doctor.stream import ExaminedEvents, LaneUsage, StreamExtent


class DoctorReader(Protocol):
    async def extent(self) -> StreamExtent: ...

    async def run_page(self, *, after_seq: int, limit: int) -> ExaminedRuns:
        """Return the next runs in the order of acceptance, with all rows that belong to them."""
        ...

    async def event_page(self, *, after_seq: int, limit: int) -> ExaminedEvents:
        """Return a page of events that covers the next `limit` numbers after `after_seq`.

        The numbers of pruned events are skipped. The page ends at the end of the stream.
        """
        ...

    async def instances(self) -> Sequence[Instance]:
        """Return all recorded instances, alive or not."""
        ...

    async def lane_uses(self) -> Sequence[LaneUsage]: ...
