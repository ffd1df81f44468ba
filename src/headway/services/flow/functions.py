"""Python functions that nodes of kind `local` call, by name."""

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
from headway.forked import run_guarded
from headway.services.context.blocking_context import start_in_thread
from headway.services.job_errors import describe_error, is_function_error

FlowFunction = Callable[..., Any]
THREAD_COUNT_MAX: Final = 256
"""How many plain functions are at work at once; more wait for one of them to end."""
_CONTAINERS: Final = (dict, list)


class Functions:
    """An `async def` is called in the event loop, a plain `def` in a thread."""

    def __init__(self) -> None:
        self._functions: dict[str, tuple[FlowFunction, int, bool]] = {}
        self._threads = asyncio.Semaphore(THREAD_COUNT_MAX)

    @property
    def names(self) -> list[str]:
        return sorted(self._functions)

    def add(self, function: FlowFunction, name: str | None = None) -> None:
        """It is given the node's input and, if it takes two arguments, the parameters too."""
        own_name: str = getattr(function, "__name__", "")
        named = check_name(own_name if name is None else name, field="name")
        if named in self._functions:
            raise InvalidInput("name", f"{named!r} is the name of two functions")
        takes = _argument_count(function, named)
        self._functions[named] = (function, takes, inspect.iscoroutinefunction(function))

    async def call(self, command: CallFunction) -> CallOutcome:
        """How it went, whatever it raises. To stop it, cancel this.

        Untaken: another program may have it, such as the next version of this one.
        """
        found = self._functions.get(command.function)
        if found is None:
            problem = f"no function: {command.function!r} is not registered in this program"
            return CalleeUnavailable(command.call_id, problem)
        function, takes, is_async = found
        given = (copy_with_secrets(command.input), copy_with_secrets(command.params))[:takes]
        task = asyncio.current_task()
        try:
            if is_async:
                result = await run_guarded(function(*given))
            else:
                result = await self._run_in_thread(partial(function, *given), command.function)
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return Failed(
                command.call_id, describe_error(error)
            )  # Of something that it waited for.
        except BaseException as error:  # Every exception of the function is the node's error.
            if not is_function_error(error, task):
                raise
            return Failed(command.call_id, describe_error(error))
        return to_outcome(command.call_id, result)

    async def _run_in_thread(self, function: FlowFunction, name: str) -> Any:
        """A thread of its own, so that one that never ends takes no place from the others."""
        await self._threads.acquire()
        answer = start_in_thread(function, name=f"headway-function-{name}")
        answer.add_done_callback(self._release_thread)
        return await asyncio.shield(answer)

    def _release_thread(self, answer: "asyncio.Future[Any]") -> None:
        self._threads.release()
        if not answer.cancelled():
            answer.exception()  # Seen: perhaps nobody waits for it any more.


def to_outcome(call_id: str, result: Any) -> Answered | Failed:
    """Its result, if it is a document; it is of no use to ask for another one."""
    if result is None or isinstance(result, bool) or _is_small_int(result):
        return Answered(call_id, result)  # Nothing can be wrong with it.
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
    """A copy with its secrets opened: whoever changes it changes nothing of the task."""
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
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
        return 2
    by_place = [
        one
        for one in parameters
        if one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed_count = sum(one.default is inspect.Parameter.empty for one in by_place)
    by_name = [
        one.name
        for one in parameters
        if one.kind is inspect.Parameter.KEYWORD_ONLY and one.default is inspect.Parameter.empty
    ]
    if needed_count > 2 or by_name:
        raise InvalidInput("function", f"{name!r} must take the input, and the parameters, alone")
    return min(2, len(by_place))
