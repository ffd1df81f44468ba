"""Start, cancel and await the tasks of a background service.

A service opens `BackgroundTasks` while it runs, and starts its loops there:

    async with BackgroundTasks() as background:
        background.start_loop(self._follow())
        try:
            yield
        finally:
            ...  # Stop the service. Its loops still run.

If a task fails, the others are canceled, the body is canceled, and the error of the task is raised.
This error takes precedence over a cancellation by the caller. If no task fails, a cancellation
always propagates, also one that arrives during the stop.

A failed task cancels the body with `Task.cancel()`, so the body receives the same CancelledError as
after a cancellation by the caller. Only the TaskGroup can distinguish the two: it counts its own
request and undoes it with `Task.uncancel()` at its exit. Therefore the exit of the group must
always be reached, and a service must not try to determine whether a task or the caller canceled it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Self, TypeVar

from headway.core.errors import InfrastructureError, StoreClosed
from headway.log import event_log
from headway.services.retrying import wait_until_set

UNWIND_S: Final = 5.0
"""How long a stopping service waits for its tasks to end before it cancels them.

The last rounds of its loops are among these tasks.
"""

T = TypeVar("T")

log = event_log(__name__)


class BackgroundTasks:
    """Starts the tasks of a service inside `async with`, and ends them when the block ends."""

    def __init__(self) -> None:
        self.stop_event = asyncio.Event()
        """Set when the `async with` block ends. Long rounds of loops check it and return early."""
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that ends by itself. It is awaited at the end of the `async with` block."""
        task = self._group.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def start_loop(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that runs until it is canceled at the end of the `async with` block."""
        task = self.start(coroutine)
        self._loops.append(task)
        return task

    def repeat(self, loop: str, action: Callable[[], Awaitable[object]], *, every_s: float) -> None:
        """Repeat `action` until the `async with` block ends, with pauses of `every_s` seconds.

        The last call is awaited at the end of the block. `loop` names the loop in log events.
        """
        self.start(self._repeat(loop, action, every_s))

    async def _repeat(
        self, loop: str, action: Callable[[], Awaitable[object]], every_s: float
    ) -> None:
        while not self.stop_event.is_set():
            await run_round(loop, action)
            await wait_until_set(self.stop_event, every_s)

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop_event.set()
        for loop in self._loops:
            loop.cancel()
        deadline = asyncio.get_running_loop().call_later(UNWIND_S, self._cancel_all)
        task_error: BaseException | None = None
        try:
            # The body's error is not passed: the group would wrap it. It propagates by itself.
            await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as errors:
            task_error = errors.exceptions[0]  # The first error canceled the other tasks.
        finally:
            deadline.cancel()
        if task_error is not None:
            raise task_error

    def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()


async def run_round(loop: str, action: Callable[[], Awaitable[T]]) -> T | None:
    """Call `action` as one round of `loop`. Return its result, or None if it fails.

    Log the error of a failed round. Raise StoreClosed, which ends the loop, because no later round
    can succeed.
    """
    try:
        return await action()
    except StoreClosed:
        raise
    except InfrastructureError as error:
        log.warning("round_failed", extra={"loop": loop, "reason": str(error)})
    except Exception:  # A crash must not end the loop.
        log.exception("round_crashed", extra={"loop": loop})
    return None
