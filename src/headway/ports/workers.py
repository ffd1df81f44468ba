"""Workers: the HTTP calls to them, and reads of their registry."""

from collections.abc import Callable, Sequence
from typing import Protocol

from headway.core.ids import Instant
from headway.core.worker.saved_worker import LiveWorker


class WorkerCallFailed(Exception):
    """A call to a worker failed. The message contains the reason."""


class WorkerConnectFailed(WorkerCallFailed):
    """No connection to the worker could be made, so it did not receive the call."""


class InvalidWorkerResponse(WorkerCallFailed):
    """The worker's answer is not HTTP, is for another call, or is too long."""


class WorkerClient(Protocol):
    async def post(
        self,
        url: str,
        body: bytes,
        *,
        headers: dict[str, str],
        timeout_s: float,
        on_line: Callable[[bytes], bool] | None = None,
    ) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of the worker's answer.

        Raise WorkerCallFailed if there is no answer. Raise its subclass WorkerConnectFailed if the
        worker did not receive the call. Raise InvalidWorkerResponse if the answer is invalid.

        `on_line` receives progress: it is called with each line of an NDJSON answer. The first line
        for which it returns False is the body.

        An answer that names a call (`Headway-Call-Id`) must name the call in `headers`. An answer
        without a call id is accepted only over a connection that was made for this call.

        Only allowed addresses are connected to, redirects are not followed, and an answer longer
        than the limit for documents is invalid (S5).
        """
        ...

    async def close(self) -> None: ...


class WorkerReader(Protocol):
    async def workers(self, *, heartbeat_since: Instant) -> Sequence[LiveWorker]:
        """Return the workers with a heartbeat at or after `heartbeat_since`, sorted by id.

        If there are very many, only the workers with the latest heartbeats are returned.
        """
        ...

    async def stale_workers(self, *, heartbeat_before: Instant, limit: int) -> Sequence[str]:
        """Return ids of workers with no heartbeat since `heartbeat_before`, oldest first."""
        ...

    async def count_stale_workers(self, *, heartbeat_before: Instant) -> int: ...
