"""A gateway for programs without workers."""

from collections.abc import Collection
from typing import Final

from headway.core.flow.commands import CallService
from headway.core.flow.happened import Failed
from headway.core.ids import RunId

NO_WORKER: Final = "no worker"


class NoWorkers:
    async def call(
        self,
        command: CallService,
        *,
        run_id: RunId,  # noqa: ARG002  # As the port wants it.
        generation: int,  # noqa: ARG002
    ) -> Failed:
        return Failed(command.call_id, NO_WORKER)

    async def offered(self) -> Collection[str]:
        return ()
