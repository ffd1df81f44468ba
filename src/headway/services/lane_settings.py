"""Lanes, as people see and set them."""

from collections.abc import Sequence

from headway.core.command.lane import Changed, SetLane
from headway.core.errors import RevisionConflict
from headway.core.ids import LaneName
from headway.core.lane import Lane
from headway.ports.run_reader import LaneView, RunReader
from headway.ports.store import Store


class Lanes:
    def __init__(self, store: Store, reader: RunReader) -> None:
        self._store = store
        self._reader = reader

    async def list(self) -> Sequence[LaneView]:
        """Every lane with its limits, and how many runs hold a slot or wait in it."""
        return await self._reader.lanes()

    async def set(
        self,
        name: str,
        *,
        max_concurrent: int | None = None,
        max_queued: int | None = None,
        is_paused: bool | None = None,
        expected_revision: int | None = None,
    ) -> Lane:
        """Change what is given; `max_queued=-1` lifts that limit.

        A raised limit is used at once. A lowered one interrupts nobody: fewer start until it holds.
        RevisionConflict: somebody has changed the lane since that revision was read.
        """
        answer = await self._store.apply(
            SetLane(
                name=LaneName(name),
                max_concurrent=max_concurrent,
                max_queued=max_queued,
                is_paused=is_paused,
                expected_revision=expected_revision,
            )
        )
        if isinstance(answer, Changed):
            raise RevisionConflict(f"lane {name!r}", answer.revision)
        return answer
