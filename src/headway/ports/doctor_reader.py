"""What the doctor reads: page by page, each page as of one instant."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.batch_state import Instance
from headway.core.doctor.run_page import ExaminedRuns
from headway.core.doctor.stream import ExaminedEvents, LaneUsage, StreamExtent


class DoctorReader(Protocol):
    async def extent(self) -> StreamExtent: ...

    async def run_page(self, *, after_seq: int, limit: int) -> ExaminedRuns:
        """The next runs, as they were accepted, with all that belongs to them."""
        ...

    async def event_page(self, *, after_seq: int, limit: int) -> ExaminedEvents:
        """The next `limit` numbers of the stream, from where it is not pruned, to its end."""
        ...

    async def instances(self) -> Sequence[Instance]:
        """Return all recorded instances, alive or not."""
        ...

    async def lane_uses(self) -> Sequence[LaneUsage]: ...
