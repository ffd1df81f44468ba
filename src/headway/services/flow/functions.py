"""The Python functions that nodes of kind `local` call by name."""

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from headway.core.document import check_name, encode_document
from headway.core.errors import InvalidInput
from headway.core.flow.engine.effects import CallFunction
from headway.core.flow.engine.inputs import Answered, CalleeUnavailable, CallOutcome, Failed
from headway.core.flow.engine.records import encode_json
from headway.core.secret import reveal
from headway.process.fork_guard import run_guarded
from headway.services.context.blocking_context import start_in_thread
from headway.services.job_errors import describe_error, is_function_error

FlowFunction = Callable[..., Any]
THREAD_COUNT_MAX: Final = 256
"""How many plain functions may run at once. Further calls wait for a free thread."""
_CONTAINERS: Final = (dict, list)


class Functions:
    """The registry of the functions that nodes call.

    An `async def` function runs in the event loop, and a plain `def` function in a thread.
    """

    def __init__(self) -> None:
        self._functions: dict[str, tuple[FlowFunction, int, bool]] = {}
        self._threads = asyncio.Semaphore(THREAD_COUNT_MAX)

    @property
    def names(self) -> list[str]:
        return sorted(self._functions)

    def add(self, function: FlowFunction, name: str | None = None) -> None:
        """Register a function under `name`, or under its own name.

        The function takes the input of the node and, if it has a second argument, the parameters.
        Raise InvalidInput if the name is taken or the function takes other arguments.
        """
        own_name: str = getattr(function, "__name__", "")
        function_name = check_name(own_name if name is None else name, field="name")
        if function_name in self._functions:
            raise InvalidInput(
                "name", f"a function {function_name!r} is already registered; choose another name"
            )
        argument_count = _argument_count(function, function_name)
        self._functions[function_name] = (
            function,
            argument_count,
            inspect.iscoroutinefunction(function),
        )

    async def call(self, command: CallFunction) -> CallOutcome:
        """Call a function and return the outcome, even if the function raises an exception.

        To stop an `async def` function, cancel this call. Return CalleeUnavailable if the function
        is not registered in this process: it may be registered in another process, for example in
        the next version of this program.
        """
        registered = self._functions.get(command.function)
        if registered is None:
            problem = f"no function: {command.function!r} is not registered in this process"
            return CalleeUnavailable(command.call_id, problem)
        function, argument_count, is_async = registered
        arguments = (copy_with_secrets(command.input), copy_with_secrets(command.params))[
            :argument_count
        ]
        task = asyncio.current_task()
        try:
            if is_async:
                result = await run_guarded(function(*arguments))
            else:
                result = await self._run_in_thread(partial(function, *arguments), command.function)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            # Something that the function awaited was canceled, not this call.
            return Failed(command.call_id, describe_error(error))
        except BaseException as error:  # Every exception of the function is the node's error.
            if not is_function_error(error, task):
                raise
            return Failed(command.call_id, describe_error(error))
        return to_outcome(command.call_id, result)

    async def _run_in_thread(self, function: FlowFunction, name: str) -> Any:
        """Run a function in its own thread, so that an endless function occupies no pool thread."""
        await self._threads.acquire()
        future = start_in_thread(function, name=f"headway-function-{name}")
        future.add_done_callback(self._release_thread)
        return await asyncio.shield(future)

    def _release_thread(self, future: "asyncio.Future[Any]") -> None:
        self._threads.release()
        if not future.cancelled():
            future.exception()  # Mark as retrieved: the awaiting call may have been canceled.


def to_outcome(call_id: str, result: Any) -> Answered | Failed:
    """Return an outcome with `result`, or a final failure if it is not a valid document."""
    if result is None or isinstance(result, bool) or _is_small_int(result):
        return Answered(call_id, result)  # Always a valid document.
    try:
        text = encode_document(result, field="result")
    except InvalidInput as error:
        return Failed(call_id, f"invalid_result: {error}", is_final=True)
    return Answered(call_id, json.loads(text) if isinstance(result, _COPIED_TYPES) else result)


def _is_small_int(result: Any) -> bool:
    return type(result) is int and -_SMALL_INT_LIMIT < result < _SMALL_INT_LIMIT


_SMALL_INT_LIMIT: Final = 1 << 63
_COPIED_TYPES: Final = (dict, list, tuple)


def copy_with_secrets(value: Any) -> Any:
    """Return a copy of `value` with its secrets revealed.

    A flow function may change the copy without affecting the task.
    """
    if isinstance(value, Mapping):
        if not value:
            return {}
        return reveal(encode_json(dict(value)))
    return reveal(encode_json(value)) if isinstance(value, _CONTAINERS) else value


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _argument_count(function: FlowFunction, name: str) -> int:
    if not callable(function):
        raise InvalidInput("function", f"{name!r} is not a function")
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    positional = [
        parameter
        for parameter in parameters
        if parameter.kind
        in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed_count = sum(parameter.default is inspect.Parameter.empty for parameter in positional)
    required_keywords = [
        parameter.name
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and parameter.default is inspect.Parameter.empty
    ]
    if needed_count > 2 or required_keywords:
        raise InvalidInput(
            "function",
            f"{name!r} must take at most two positional arguments: the input and the parameters",
        )
    return min(2, len(positional))
