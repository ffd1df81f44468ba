"""What the doctor reads: page by page, each page as of one instant."""

from collections.abc import Sequence
from typing import Protocol

from headway.core.batch_state import Instance
from headway.core.doctor.run_page import RunPage
from headway.core.doctor.stream import EventPage, Extent, LaneUse


class DoctorReader(Protocol):
    async def extent(self) -> Extent: ...

    async def run_page(self, *, after_seq: int, limit: int) -> RunPage:
        """The next runs, as they were accepted, with all that belongs to them."""
        ...

    async def event_page(self, *, after_seq: int, limit: int) -> EventPage:
        """The next `limit` numbers of the stream, from where it is not pruned, to its end."""
        ...

    async def instances(self) -> Sequence[Instance]:
        """Return all recorded instances, alive or not."""
        ...

    async def lane_uses(self) -> Sequence[LaneUse]: ...
