"""What a job is given, and what it may say while it runs."""

import json
from typing import Any

from headway.core.command.claim import Claimed
from headway.core.command.report import SaveCheckpoint, SaveProgress
from headway.core.document import encode_document
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.ports.store import Store


class RunContext:
    """One execution of one run. Pass `generation` on to whatever must not hear an older one."""

    def __init__(self, claimed: Claimed, store: Store) -> None:
        self._claim = Claim(claimed.run_id, claimed.token)
        self._store = store
        self.run_id: RunId = claimed.run_id
        self.key: Key = claimed.key
        self.generation: int = claimed.generation
        self.params: dict[str, Any] = json.loads(claimed.params)
        self.checkpoint: Any = (
            None if claimed.checkpoint is None else json.loads(claimed.checkpoint)
        )
        """What this run saved last, or the run that it continues."""

    async def progress(self, **figures: Any) -> None:
        """Replace the run's progress by `figures`."""
        document = encode_document(figures, place="progress")
        await self._store.apply(SaveProgress(self._claim, document))

    async def save_checkpoint(self, checkpoint: Any) -> None:
        """From here a later execution goes on, after a crash or by Continue."""
        document = encode_document(checkpoint, place="checkpoint")
        await self._store.apply(SaveCheckpoint(self._claim, document))
        self.checkpoint = checkpoint
