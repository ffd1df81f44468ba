"""Call jobs that are plain functions in threads, with a context of blocking methods."""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from headway.core.ids import Key, RunId
from headway.core.run.run import RunMode
from headway.core.run.status import RunStatus
from headway.ports.file_folder import PartFile
from headway.process.fork_guard import exit_if_forked, fork_mark
from headway.services.context.execution import Ending
from headway.services.context.run_context import ChildRun, RunContext
from headway.services.context.run_files import RunFiles, check_data
from headway.services.job_errors import JobExited

P = ParamSpec("P")
T = TypeVar("T")


class BlockingChildRun:
    """A child run that a job written as a plain `def` has started. Its methods block."""

    def __init__(self, child: ChildRun, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._child = child
        self._wait = wait
        self.id: RunId = child.id

    def __repr__(self) -> str:
        return f"BlockingChildRun({self.id!r})"

    def status(self) -> RunStatus:
        """Return the current status of the child."""
        status: RunStatus = self._wait(self._child.status())
        return status

    def result(self) -> Any:
        """Wait until the child run has ended, and return its result.

        Raise RunFailed if the child has no result. The parent holds no slot while it waits.
        """
        return self._wait(self._child.result())


def _blocking(
    method: Callable[Concatenate[RunContext, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[BlockingRunContext, P], T]":
    """Return a blocking version of a RunContext method, for the thread of a job.

    It has the same signature and docstring as the method.
    """

    @wraps(method)
    def call(self: "BlockingRunContext", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self._context, *args, **kwargs))

    return call


def _blocking_start(
    method: Callable[Concatenate[RunContext, P], Coroutine[Any, Any, ChildRun]],
) -> "Callable[Concatenate[BlockingRunContext, P], BlockingChildRun]":
    """Return a blocking version of a RunContext method that starts a child run."""

    @wraps(method)
    def start(self: "BlockingRunContext", /, *args: P.args, **kwargs: P.kwargs) -> BlockingChildRun:
        return BlockingChildRun(self._wait(method(self._context, *args, **kwargs)), self._wait)

    shown = signature(method).replace(return_annotation=BlockingChildRun)
    start.__dict__["__signature__"] = shown
    return start


class BlockingRunContext:
    """The context of a job that is a plain `def`: the methods of RunContext, but blocking.

    A thread cannot be stopped from outside. Once the run must end, `canceled` is true, and every
    method raises CancelledError, even if it was called before and is waiting. The key stays busy
    until the function returns or its grace period is over.

    `compacting` is absent, because a thread cannot be stopped when the time for compacting is up.
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
        """The number of the attempt: 1 at first, and one more for each retry."""
        self.params: dict[str, Any] = context.params
        """The parameters of the run, including defaults."""

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint of this run, or of the run that it continues."""
        return self._context.checkpoint

    @property
    def canceled(self) -> bool:
        """True if the job should end. The task of an `async def` job is canceled as well."""
        return self._context.canceled

    @property
    def ending(self) -> str | None:
        """The reason why the job should end, or None while it may continue.

        `cancelled`: the run was canceled and ends as `canceled`. `shutdown`: the process stops, and
        the run is executed again elsewhere. `lost`: the claim of this execution is stale, and
        another process may already execute the run.
        """
        return self._context.ending

    progress = _blocking(RunContext.progress)
    save_checkpoint = _blocking(RunContext.save_checkpoint)
    has_file = _blocking(RunContext.has_file)
    log = _blocking(RunContext.log)
    emit = _blocking(RunContext.emit)
    messages = _blocking(RunContext.messages)
    sleep = _blocking(RunContext.sleep)
    interrupt = _blocking(RunContext.interrupt)
    call = _blocking(RunContext.call)
    start = _blocking_start(RunContext.start)

    @contextmanager
    def file(self, path: str) -> "Iterator[BlockingFileWriter]":
        """Write a file in the folder of the run's key: `with ctx.file("photos/1.jpg") as f`.

        The file gets its name atomically when the block ends without an error. Until then its data
        is in a `.part` file, which an error or a cancel removes.
        """
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

    @contextmanager
    def listening(self) -> "Iterator[None]":
        """Accept messages inside the `with` block.

        Read the messages with `messages()` at each step of the job, and once more after the block,
        because the last messages may have been accepted just before its end. After the block the
        run accepts neither a message nor a cancel, because only its result has to be stored.
        """
        window = self._context.listening()
        self._wait(window.__aenter__())
        try:
            yield
        finally:
            if self._context.execution.ending is None:
                self._wait(window.__aexit__(None, None, None))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        exit_if_forked(self._fork_mark)  # A forked process has no event loop, so it would hang.
        if self.canceled:
            coroutine.close()
            raise asyncio.CancelledError
        future = asyncio.run_coroutine_threadsafe(self._run_cancellable(coroutine), self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            self._context.execution.note_ending()
            raise asyncio.CancelledError from None

    async def _run_cancellable(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            with self._context.execution.open_call():
                return await coroutine
        finally:
            coroutine.close()  # It has not begun if the job was already canceled.


class BlockingFileWriter:
    """A file that a job written as a plain `def` opened with `ctx.file`."""

    def __init__(self, context: BlockingRunContext, part: PartFile) -> None:
        self._context = context
        self._part = part

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append `data` to the file. Wait for the disk when the buffer is full."""
        if self._context.canceled:
            raise asyncio.CancelledError
        self._part.write(check_data(data))


async def call_in_thread(
    function: Callable[..., Any], context: RunContext, arguments: dict[str, Any]
) -> Any:
    """Call the function of a job in a thread of its own, and return its result.

    If this call is canceled, it waits until the function has returned. Threads are not shared, so
    that a function that never ends does not block another job. Raise CancelledError if the function
    returned because the execution had to end.
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
