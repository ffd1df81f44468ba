"""Services: functions that flows call by name, wherever they run."""

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
    """One call of a service."""

    id: str
    """The same when the call is repeated after a crash; empty when the caller gave none."""
    generation: int
    """Of the task that calls. Pass it on to whatever must not hear an older one."""
    send_progress: Callable[[Document], None]
    """For `progress`."""
    cancelled: bool = False
    """Whether the result is no longer needed. A long plain `def` checks it from time to time.

    An `async def` need not check it, because its asyncio task is cancelled.
    """

    def progress(self, /, **figures: Any) -> None:
        """Tell how far it is: the task's progress is replaced by `figures`, and the node's name.

        As often as you like, from any thread; ten times a second it is sent. InvalidInput when the
        figures are not JSON, or too many.
        """
        limit = PROGRESS_BYTE_COUNT_MAX
        self.send_progress(encode_document(figures, field="progress", byte_count_max=limit))


class ServiceError(Exception):
    """What a service raises to say, in these words, that it failed."""


class Services:
    """A set of services. A function takes the input, the parameters and the call, or less."""

    def __init__(self) -> None:
        self._functions: dict[str, tuple[Callable[..., Any], int]] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._functions)

    def __call__(self, function: F | None = None, /, *, name: str | None = None) -> Any:
        """Register a function as a service, under its own name unless one is given."""

        def register(function: F) -> F:
            own_name: str = getattr(function, "__name__", "")
            named = check_name(own_name if name is None else name, field="service")
            if named in self._functions:
                raise InvalidInput("service", f"{named!r} is the name of two services")
            takes = len(inspect.signature(function).parameters)
            if takes > 3:
                raise InvalidInput("service", f"{named!r} takes input, params and call, or less")
            self._functions[named] = (function, takes)
            return function

        return register if function is None else register(function)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def include(self, others: "Services") -> None:
        """Take in those of another set that have no name of this one."""
        self._functions = others._functions | self._functions

    async def call(
        self, name: str, given: Any, params: dict[str, Any], call: Call, *, threads: Executor
    ) -> Any:
        """What the service says; a plain `def` is called in one of the threads."""
        function, takes = self._functions[name]
        arguments = (given, params, call)[:takes]
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        # In this context, so that what it logs is of this call.
        begin = partial(copy_context().run, function, *arguments)
        return await asyncio.get_running_loop().run_in_executor(threads, begin)
