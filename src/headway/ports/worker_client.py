"""The wire to one worker."""

from collections.abc import Callable
from typing import Protocol


class WorkerCallFailed(Exception):
    """It could not be asked, or did not answer as it should; the message says why."""


class WorkerConnectFailed(WorkerCallFailed):
    """There was no connection to it: it has not heard a word."""


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
        """The status and the body of its answer; WorkerUnreachable when there is none.

        Raise WorkerNotReached if it was not called, and WorkerAnswerUnusable if the answer is
        not valid.

        Who gives `hear` listens to progress: an answer in lines is given to it line by line, and
        the body is the first line that it does not take as such.

        An answer that names a call (`Headway-Call-Id`) must name the one that `headers` name; one
        that names none is only believed if nobody else can have been meant.

        Only addresses that are allowed are connected to, no redirect is followed, and an answer
        beyond the limit of documents is none (S5).
        """
        ...

    async def close(self) -> None: ...
