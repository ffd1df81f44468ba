"""Decide whether a refused write is worth retrying.

A database without free space refuses every write, and waiting loses nothing. But a write that is
too large for the database is refused permanently, and retrying it forever would occupy a slot. To
distinguish the cases, another, small write is attempted. If the small write succeeds and the first
write is still refused, the refusal is final.
"""

from typing import Final

from headway.core.command.run.report import AppendEvents, make_log_event
from headway.core.document import encode_document
from headway.core.errors import InfrastructureError, StoreClosed, StoreFailed
from headway.core.run.run import Claim
from headway.ports.store import Store

REFUSAL_COUNT_MAX: Final = 5
"""The number of consecutive refusals of a write after which a small write is attempted."""


class WriteRefusals:
    """Counts how often the database refuses one write, and decides whether to retry it."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self.reset()

    def reset(self) -> None:
        """Reset the count, because the write was accepted."""
        self._count = 0
        self._has_accepted_other = False

    async def is_final(self, error: InfrastructureError) -> bool:
        """Count a refusal. Return True if the database accepts other writes but not this one."""
        if not isinstance(error, StoreFailed):
            self.reset()
            return False
        self._count += 1
        if self._count < REFUSAL_COUNT_MAX:
            return False
        if self._has_accepted_other:
            return True
        self._has_accepted_other = await self._accepts_other_write(error)
        return False

    async def _accepts_other_write(self, error: StoreFailed) -> bool:
        line = encode_document({"level": "warning", "message": str(error)}, field="log")
        command = AppendEvents(self._claim, (make_log_event([line]),))
        try:
            await self._store.apply(command)
        except StoreClosed:
            raise
        except InfrastructureError:
            return False
        return True
