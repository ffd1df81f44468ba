"""Classify and format the errors that jobs and flow functions raise."""

import asyncio
import dis
import signal
import threading
import traceback
from collections.abc import Iterable
from functools import partial
from types import CodeType, TracebackType
from typing import Final

from headway.core.command.run.end_run import Ended
from headway.core.document import replace_unstorable
from headway.log import HIDDEN, event_log, hide_named_secrets

TRACEBACK_LENGTH_MAX: Final = 16_000
FRAME_COUNT_MAX: Final = 60
_TRUNCATED: Final = "(the beginning is left out)\n"


log = event_log(__name__)


class JobExited(Exception):
    """A plain function raised an error that would end the program, such as SystemExit.

    The function's error is the `__cause__` of the JobExited.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.__cause__ = error


def describe_error(error: BaseException) -> str:
    """Return the class name and the message of an error, as text that can be stored."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # The error's own __str__ may raise.
        message = ""
    return replace_unstorable(f"{name}: {message}" if message else name)


def format_traceback(error: BaseException, *, secrets: Iterable[str] = ()) -> str:
    """Return the innermost frames of the traceback as text to store, without secrets."""
    try:
        text = "".join(traceback.format_exception(error, limit=-FRAME_COUNT_MAX))
    except Exception:  # The error's own code may raise.
        text = describe_error(error)
    text = replace_unstorable(hide_named_secrets(hide_secrets(text, secrets)))
    if len(text) > TRACEBACK_LENGTH_MAX:
        text = _TRUNCATED + text[len(_TRUNCATED) - TRACEBACK_LENGTH_MAX :]
    return text


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with a placeholder instead of each occurrence of a secret."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def log_if_ended(answer: object) -> None:
    """Log that a run has ended, if `answer` is Ended.

    The command itself has ended the run, so no execution logs its end.
    """
    if isinstance(answer, Ended):
        fields = {"run_id": answer.run_id, "key": answer.key, "job": answer.job}
        log.error("run_ended", extra={**fields, "error": answer.error})


def is_function_error(error: BaseException, task: "asyncio.Task[object] | None") -> bool:
    """Return whether the function that `task` executes raised `error` itself.

    Other errors were injected into the function's frame and must propagate: GeneratorExit from
    `close()` of an abandoned coroutine, or KeyboardInterrupt from a Ctrl-C.
    """
    if isinstance(error, GeneratorExit):
        return task is not None and _current_task() is task
    if isinstance(error, KeyboardInterrupt):
        return not _is_from_sigint(error)
    return True


def _current_task() -> "asyncio.Task[object] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # No event loop is running in this thread.
        return None


def _is_from_sigint(error: KeyboardInterrupt) -> bool:
    """Return whether the SIGINT handler raised `error`.

    A handler written in Python leaves its own frame in the traceback. Python's default handler
    leaves no frame, but it interrupts any instruction. So the default handler raised the error if
    the innermost frame is not at a `raise`.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    codes, innermost = _frame_codes(error.__traceback__)
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        if innermost is None:
            return False
        opcode = innermost.tb_frame.f_code.co_code[innermost.tb_lasti]
        return dis.opname[opcode] not in ("RAISE_VARARGS", "RERAISE")
    function = handler.func if isinstance(handler, partial) else handler
    return getattr(function, "__code__", None) in codes


def _frame_codes(trace: TracebackType | None) -> tuple[set[CodeType], TracebackType | None]:
    codes: set[CodeType] = set()
    innermost = None
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        innermost, trace = trace, trace.tb_next
    return codes, innermost
