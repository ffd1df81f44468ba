"""A write that the database refuses: is it every one, or this one alone, for ever?

For want of space it refuses everything, and whoever waits loses nothing. But what is too large for
it will never be taken, and to try that for ever would keep a slot from the others.
"""

from typing import Final

from headway.core.command.run.report import AppendEvents, make_log_event
from headway.core.document import encode_document
from headway.core.errors import InfrastructureError, StoreClosed, StoreFailed
from headway.core.run.run import Claim
from headway.ports.store import Store

REFUSAL_COUNT_MAX: Final = 5
"""How often in a row a write may be refused until somebody asks why."""


class WriteRefusals:
    """Of one write, which is tried again and again."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self.reset()

    def reset(self) -> None:
        """It was taken."""
        self._count = 0
        self._has_accepted_other = False

    async def is_final(self, error: InfrastructureError) -> bool:
        """Whether it was refused once more after the database had taken another write."""
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
        told = AppendEvents(self._claim, (make_log_event([line]),))
        try:
            await self._store.apply(told)
        except StoreClosed:
            raise
        except InfrastructureError:
            return False
        return True
