"""Jobs that are plain functions: called in a thread, with a context of blocking methods."""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

from headway.core.ids import Key, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import RunMode
from headway.core.run.status import RunStatus
from headway.ports.file_folder import PartFile
from headway.process.fork_guard import exit_if_forked, fork_mark
from headway.services.context.execution import Ending
from headway.services.context.run_context import ChildRun, RunContext
from headway.services.context.run_files import RunFiles, check_data
from headway.services.job_errors import JobExited
from headway.services.submit.job import JobFunction

T = TypeVar("T")


class BlockingChildRun:
    """A child run, as a parent's job that is a plain `def` sees it."""

    def __init__(self, child: ChildRun, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._child = child
        self._wait = wait
        self.id: RunId = child.id

    def status(self) -> RunStatus:
        status: RunStatus = self._wait(self._child.status())
        return status

    def result(self) -> Any:
        return self._wait(self._child.result())


class BlockingRunContext:
    """The context of a job that is a plain `def`: the methods of RunContext, but blocking.

    A thread cannot be stopped from outside. Once the run must end, `cancelled` is true, and every
    call raises CancelledError, also one that is already waiting. The key stays busy until the
    function returns or its grace period is over.
    """

    def __init__(self, context: RunContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._fork_mark = fork_mark()
        self.run_id: RunId = context.run_id
        self.key: Key = context.key
        self.mode: RunMode = context.mode
        self.generation: int = context.generation
        self.attempt: int = context.attempt
        self.params: dict[str, Any] = context.params

    @property
    def checkpoint(self) -> Any:
        return self._context.checkpoint

    @property
    def cancelled(self) -> bool:
        return self._context.cancelled

    @property
    def ending(self) -> str | None:
        return self._context.ending

    def progress(self, **fields: Any) -> None:
        self._wait(self._context.progress(**fields))

    def save_checkpoint(self, checkpoint: Any) -> None:
        self._wait(self._context.save_checkpoint(checkpoint))

    @contextmanager
    def file(self, path: str) -> "Iterator[BlockingFileWriter]":
        files, part = self._wait(self._begin_part(path))
        try:
            yield BlockingFileWriter(self, part)
            self._wait(files.finish_part(part, path))
        except BaseException:
            files.discard_part(part)
            raise

    async def _begin_part(self, path: str) -> tuple[RunFiles, PartFile]:
        files = self._context.open_files()
        return files, await files.begin_part(path)

    def has_file(self, path: str) -> bool:
        return self._wait(self._context.has_file(path))

    def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        self._wait(self._context.log(message, level=level, **fields))

    def emit(self, kind: str, payload: Any = None) -> None:
        self._wait(self._context.emit(kind, payload))

    def messages(self) -> list[Any]:
        return self._wait(self._context.messages())

    def sleep(self, seconds: float) -> None:
        self._wait(self._context.sleep(seconds))

    def interrupt(
        self,
        question: Any,
        *,
        timeout_s: float | None = None,
        default: Any = None,
        schema: dict[str, Any] | None = None,
        call_id: str | None = None,
        on_shutdown: Literal["hand_over", "deny"] = "hand_over",
    ) -> Any:
        interrupt = self._context.interrupt(
            question,
            timeout_s=timeout_s,
            default=default,
            schema=schema,
            call_id=call_id,
            on_shutdown=on_shutdown,
        )
        return self._wait(interrupt)

    @contextmanager
    def listening(self) -> "Iterator[None]":
        window = self._context.listening()
        self._wait(window.__aenter__())
        try:
            yield
        finally:
            if self._context.execution.ending is None:
                self._wait(window.__aexit__(None, None, None))

    def start(
        self,
        job: str | JobFunction,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        name: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> "BlockingChildRun":
        start = self._context.start(job, key=key, params=params, name=name, on_conflict=on_conflict)
        return BlockingChildRun(self._wait(start), self._wait)

    def call(
        self,
        job: str | JobFunction,
        *,
        key: str | None = None,
        params: dict[str, Any] | None = None,
        name: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> Any:
        call = self._context.call(job, key=key, params=params, name=name, on_conflict=on_conflict)
        return self._wait(call)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        exit_if_forked(self._fork_mark)  # A forked child has no event loop and would wait forever.
        if self.cancelled:
            coroutine.close()
            raise asyncio.CancelledError
        future = asyncio.run_coroutine_threadsafe(self._run_cancellable(coroutine), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            self._context.execution.note_ending()
            raise asyncio.CancelledError from None

    async def _run_cancellable(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._context.execution.open_call():
            return await coroutine


class BlockingFileWriter:
    """A file of a run that a plain function writes."""

    def __init__(self, context: BlockingRunContext, part: PartFile) -> None:
        self._context = context
        self._part = part

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._context.cancelled:
            raise asyncio.CancelledError
        self._part.write(check_data(data))


async def call_in_thread(
    function: Callable[..., Any], context: RunContext, arguments: dict[str, Any]
) -> Any:
    """Call `function` in a thread and return its result. A cancel waits for the thread.

    Each call has its own thread, so that one that never ends does not block the others. Raise
    CancelledError if the function returned because the execution had to end.
    """
    execution = context.execution
    blocking = BlockingRunContext(context, asyncio.get_running_loop())

    def call() -> tuple[Any, Ending | None]:
        result = function(blocking, **arguments)
        return result, execution.ending  # Read in the thread: the event loop may change it later.

    answer = start_in_thread(call, name=f"headway-job-{context.run_id}")
    try:
        result, ending = await asyncio.shield(answer)
    except asyncio.CancelledError:
        if not answer.done():
            await asyncio.wait([answer])
        if answer.cancelled() or answer.exception() is not None:
            raise
        result, ending = answer.result()
    if not execution.is_result_valid(ending, is_interrupted=execution.has_seen_ending):
        raise asyncio.CancelledError
    return result


def start_in_thread(function: Callable[[], Any], *, name: str) -> "asyncio.Future[Any]":
    """Start `function` in a thread, and return a future for its result or error.

    Cancelling the future does not stop the function.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()
    variables = contextvars.copy_context()
    mark = fork_mark()

    def work() -> None:
        result, raised = None, None
        try:
            result = variables.run(function)
        except BaseException as error:
            raised = error
        exit_if_forked(mark)
        _resolve_future(loop, answer, result, raised)

    threading.Thread(target=work, name=name, daemon=True).start()
    return answer


def _resolve_future(
    loop: asyncio.AbstractEventLoop,
    answer: "asyncio.Future[Any]",
    result: Any,
    error: BaseException | None,
) -> None:
    def resolve() -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)
        elif isinstance(error, asyncio.CancelledError):
            answer.cancel()
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            answer.set_exception(error)
        else:  # SystemExit would end the program here, and a future cannot hold StopIteration.
            answer.set_exception(JobExited(error))

    try:
        loop.call_soon_threadsafe(resolve)
    except RuntimeError:  # The loop is closed, so nothing waits for the result.
        return
