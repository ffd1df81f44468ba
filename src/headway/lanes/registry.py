"""A registry of each session's active run, to send it messages, abort it or await its end."""

import asyncio
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from headway.log import event_log

WAIT_TIMEOUT_S: Final = 15.0
WAIT_TIMEOUT_S_MIN: Final = 0.1

log = event_log(__name__)


class ActiveRun(Protocol):
    """The interface of an active run. None of its members may block."""

    @property
    def is_streaming(self) -> bool: ...

    @property
    def is_compacting(self) -> bool: ...

    def queue_message(self, text: str) -> bool:
        """Return True if the run accepted the message."""
        ...

    def abort(self) -> None: ...


class QueueMessageRefusal(StrEnum):
    NO_ACTIVE_RUN = "no_active_run"
    NOT_STREAMING = "not_streaming"
    COMPACTING = "compacting"
    REFUSED = "refused"
    """The run refused the message, or raised an error."""


class QueueMessageResult(NamedTuple):
    """The outcome of `queue_message`. It is truthy if the message was queued.

    Otherwise `refusal` is the reason why it was not queued.
    """

    refusal: QueueMessageRefusal | None = None

    def __bool__(self) -> bool:
        return self.refusal is None


class ActiveRunRegistry:
    """The active run of each session, which is the run that was registered last."""

    def __init__(self) -> None:
        self._runs: dict[str, ActiveRun] = {}
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}

    def register(self, session_id: str, run: ActiveRun) -> ActiveRun | None:
        """Make `run` the active run, and return the run that it replaces, or None.

        From now on messages go to `run`. Messages that the replaced run has accepted and not read
        are in its own queue: a caller that must not lose them passes them to `run`.
        """
        replaced = self._runs.get(session_id)
        event = "run_started" if replaced is None else "run_replaced"
        self._runs[session_id] = run
        log.info(event, extra={"session_id": session_id})
        return replaced

    def clear(self, session_id: str, run: ActiveRun) -> bool:
        """Remove `run` and return True. Return False if another run, or none, is registered.

        So a replaced run that calls `clear` in its `finally` cannot remove its successor.
        """
        if self._runs.get(session_id) is not run:
            log.debug("run_clear_ignored", extra={"session_id": session_id})
            return False
        del self._runs[session_id]
        for ended in self._waiters.pop(session_id, ()):
            if not ended.done():
                ended.set_result(None)
        log.info("run_ended", extra={"session_id": session_id})
        return True

    def get(self, session_id: str) -> ActiveRun | None:
        return self._runs.get(session_id)

    def queue_message(self, session_id: str, text: str) -> QueueMessageResult:
        """Pass the message to the active run, if the run accepts it now. Never blocks or raises."""
        run = self._runs.get(session_id)
        if run is None:
            return QueueMessageResult(QueueMessageRefusal.NO_ACTIVE_RUN)
        try:
            return QueueMessageResult(_try_queue_message(run, text))
        except Exception:  # The run is the caller's code; its errors must not reach the sender.
            log.exception("run_message_failed", extra={"session_id": session_id})
            return QueueMessageResult(QueueMessageRefusal.REFUSED)

    def abort(self, session_id: str) -> bool:
        """Ask the active run to stop. Return False if there is none.

        The run stays active until it is cleared.
        """
        run = self._runs.get(session_id)
        if run is not None:
            run.abort()
        return run is not None

    async def wait_for_end(self, session_id: str, timeout_s: float = WAIT_TIMEOUT_S) -> bool:
        """Wait until the session has no active run. Return False after `timeout_s`.

        A timeout of less than 100 ms counts as 100 ms. Never raises. When the run is cleared, all
        waiting callers are woken. Replacing a run does not end the wait.
        """
        if session_id not in self._runs:
            return True
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(session_id, set()).add(ended)
        try:
            async with asyncio.timeout(max(timeout_s, WAIT_TIMEOUT_S_MIN)):
                await ended
        except TimeoutError:
            return ended.done() and not ended.cancelled()  # It may have ended at the same moment.
        finally:
            self._remove_waiter(session_id, ended)
        return True

    def _remove_waiter(self, session_id: str, ended: asyncio.Future[None]) -> None:
        waiters = self._waiters.get(session_id, set())
        waiters.discard(ended)
        if not waiters:
            self._waiters.pop(session_id, None)


def _try_queue_message(run: ActiveRun, text: str) -> QueueMessageRefusal | None:
    if not run.is_streaming:
        return QueueMessageRefusal.NOT_STREAMING
    if run.is_compacting:
        return QueueMessageRefusal.COMPACTING
    return None if run.queue_message(text) else QueueMessageRefusal.REFUSED
