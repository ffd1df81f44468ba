"""The wire to one worker."""

from typing import Protocol


class WorkerUnreachable(Exception):
    """It could not be asked, or did not answer as it should; the message says why."""


class WorkerClient(Protocol):
    async def post(
        self, url: str, body: bytes, *, headers: dict[str, str], timeout_s: float
    ) -> tuple[int, bytes]:
        """The status and the body of its answer; WorkerUnreachable when there is none.

        Only addresses that are allowed are connected to, no redirect is followed, and an answer
        beyond the limit of documents is none (S5).
        """
        ...

    async def close(self) -> None: ...
