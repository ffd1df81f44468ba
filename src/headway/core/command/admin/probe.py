"""Check whether the store can commit a write."""

from dataclasses import dataclass

from headway.core.batch_state import BatchState
from headway.core.command.protocol import RowsNeeded


@dataclass(frozen=True, slots=True)
class Probe:
    """Commit a transaction that writes the writer's own row, and nothing else.

    A transaction that is rolled back is not enough: a full disk refuses only actual writes.
    """

    def need(self, needs: RowsNeeded) -> None:
        """Need nothing: every batch locks the stream's counter."""

    def decide(self, world: BatchState) -> None:
        world.changes.is_probe = True
