"""Services: functions that flows call by name, in any worker."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from headway.core.document import Document, check_name, encode_document
from headway.core.errors import InvalidInput
from headway.core.worker.worker_protocol import PROGRESS_BYTE_COUNT_MAX

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True, eq=False)
class Call:
    """One call of a service. The service's function receives it as its third argument."""

    id: str
    """The id of the call. It is the same if the call is repeated after a crash.

    Empty if the caller sent no id.
    """
    generation: int
    """The generation of the claim under which the calling task makes this call.

    Pass it on to systems that must refuse the holders of older claims.
    """
    send_progress: Callable[[Document], None]
    """Sends encoded progress to the caller. A service calls `progress` instead."""
    canceled: bool = False
    """True if the result is no longer needed. A long-running plain `def` should check it.

    An `async def` need not check it, because its asyncio task is canceled.
    """

    def progress(self, /, **values: Any) -> None:
        """Replace the task's progress. The new progress is `values` and the node's name.

        Call this as often as needed, from any thread. The newest progress is sent at most ten times
        per second. Raise InvalidInput if the values are not JSON or too large.
        """
        limit = PROGRESS_BYTE_COUNT_MAX
        self.send_progress(encode_document(values, field="progress", byte_count_max=limit))


class ServiceError(Exception):
    """Raise this in a service to fail the call. The text becomes the error of the call."""


class Services:
    """A set of services: functions that a worker executes, each under a name.

    A function takes up to three arguments: the input, the parameters, and the `Call`.
    """

    def __init__(self) -> None:
        self._functions: dict[str, tuple[Callable[..., Any], int]] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._functions)

    def __call__(self, function: F | None = None, /, *, name: str | None = None) -> Any:
        """Register a function as a service, under `name` or under the function's own name."""

        def register(function: F) -> F:
            own_name: str = getattr(function, "__name__", "")
            service_name = check_name(own_name if name is None else name, field="service")
            if service_name in self._functions:
                raise InvalidInput("service", f"{service_name!r} is already registered")
            parameter_count = len(inspect.signature(function).parameters)
            if parameter_count > 3:
                problem = f"{service_name!r} must take at most three arguments: input, params, call"
                raise InvalidInput("service", problem)
            self._functions[service_name] = (function, parameter_count)
            return function

        return register if function is None else register(function)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def include(self, others: "Services") -> None:
        """Add the services of `others`, except services whose names are already in this set."""
        self._functions = others._functions | self._functions

    async def call(
        self, name: str, value: Any, params: dict[str, Any], call: Call, *, threads: Executor
    ) -> Any:
        """Call a service and return its result. A plain `def` runs in one of the threads."""
        function, parameter_count = self._functions[name]
        arguments = (value, params, call)[:parameter_count]
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        # Run it with a copy of this context, so that log records of the thread belong to the call.
        run = partial(copy_context().run, function, *arguments)
        return await asyncio.get_running_loop().run_in_executor(threads, run)
