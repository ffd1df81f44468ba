"""A write that the database refuses: is it every one, or this one alone, for ever?

For want of space it refuses everything, and whoever waits loses nothing. But what is too large for
it will never be taken, and to try that for ever would keep a slot from the others.
"""

from typing import Final

from headway.core.command.run.report import AppendEvents, logged
from headway.core.document import encode_document
from headway.core.errors import InfrastructureError, StoreClosed, StoreFailed
from headway.core.run.run import Claim
from headway.ports.store import Store

COUNT_MAX: Final = 5
"""How often in a row a write may be refused until somebody asks why."""


class Refusals:
    """Of one write, which is tried again and again."""

    def __init__(self, store: Store, claim: Claim) -> None:
        self._store = store
        self._claim = claim
        self.forget()

    def forget(self) -> None:
        """It was taken."""
        self._count = 0
        self._are_others_taken = False

    async def is_final(self, error: InfrastructureError) -> bool:
        """Whether it was refused once more after the database had taken another write."""
        if not isinstance(error, StoreFailed):
            self.forget()
            return False
        self._count += 1
        if self._count < COUNT_MAX:
            return False
        if self._are_others_taken:
            return True
        self._are_others_taken = await self._takes_others(error)
        return False

    async def _takes_others(self, error: StoreFailed) -> bool:
        line = encode_document({"level": "warning", "message": str(error)}, place="log")
        told = AppendEvents(self._claim, (logged([line]),))
        try:
            await self._store.apply(told)
        except StoreClosed:
            raise
        except InfrastructureError:
            return False
        return True
