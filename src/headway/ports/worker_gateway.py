"""The way to workers: remote programs that offer services."""

from collections.abc import Collection
from typing import Protocol

from headway.core.flow.commands import CallService
from headway.core.flow.happened import Answered, Failed
from headway.core.ids import RunId


class WorkerGateway(Protocol):
    async def call(
        self, command: CallService, *, run_id: RunId, generation: int
    ) -> Answered | Failed:
        """Ask one live worker that offers the service, and tell how it went; it never raises.

        Whoever cancels this has the worker told, and does not wait long for it.
        """
        ...

    async def offered(self) -> Collection[str]:
        """The services of all live workers."""
        ...
