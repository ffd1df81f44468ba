"""Exit codes of commands, and the report of an error as one sentence on stderr."""

import json
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, Final, Literal, NoReturn, Union, get_args, get_origin

from cyclopts import (
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from headway.cli.client.api_client import ApiError
from headway.core.errors import InfrastructureError

EXIT_UNSUCCESSFUL: Final = 1
"""The watched run or task has ended and did not succeed."""
EXIT_INVALID: Final = 2
"""The command line, a setting or the input is invalid."""
EXIT_CONFLICT: Final = 3
"""The command is valid, but not in the current state.

The key is busy, the lane is full, the run has ended, or the answer is stale.
"""
EXIT_NOT_FOUND: Final = 4
EXIT_UNREACHABLE: Final = 5
"""The server or the database is unavailable."""
EXIT_NOT_ALLOWED: Final = 6
"""The token is missing or invalid, or its scope does not allow the command."""
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141
"""The reader of the output has exited, as after `| head`. Shells use this code for SIGPIPE."""
USAGE: Final = "usage"
COMMANDS_WITH_VALUES: Final = frozenset({("run", "submit"), ("run", "resume"), ("key", "set")})
"""The commands that take arguments such as `name=value`."""
_TYPE_NAMES: Final = {int: "a whole number", float: "a number"}
_STATUS_EXIT_CODES: Final = {
    401: EXIT_NOT_ALLOWED,
    403: EXIT_NOT_ALLOWED,
    404: EXIT_NOT_FOUND,
    409: EXIT_CONFLICT,
    412: EXIT_CONFLICT,
    429: EXIT_CONFLICT,
    500: EXIT_UNREACHABLE,
    503: EXIT_UNREACHABLE,
}


def exit_with_error(error: Exception, arguments: Sequence[str]) -> NoReturn:
    """Report the error on stderr and exit. Use JSON if the command line has `--json`."""
    is_usage = isinstance(error, CycloptsError)
    sentence = str(error)
    if isinstance(error, CycloptsError):
        sentence = f"{usage_message(error)} See: {_command_name(error)} --help"
    sentence = " ".join(sentence.splitlines())
    if any(argument == "--json" or argument.startswith("--json=") for argument in arguments):
        code = USAGE if is_usage else _error_code(error)
        print(json.dumps({"error": {"code": code, "message": sentence}}), file=sys.stderr)
    else:
        print(f"headway: {sentence}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
    sys.exit(_exit_code(error))


def _exit_code(error: Exception) -> int:
    match error:
        case ApiError(status=status):
            return _STATUS_EXIT_CODES.get(status, EXIT_INVALID)
        case InfrastructureError():
            return EXIT_UNREACHABLE
        case _:
            return EXIT_INVALID


def usage_message(error: Exception) -> str:
    """Describe a usage error, without the parser's own vocabulary where that is unclear."""
    match error:
        case UnusedCliTokensError(unused_tokens=[*tokens]):
            return f"{_command_name(error)} takes no {_quote(tokens)}."
        case MissingArgumentError(argument=argument) if argument is not None:
            return f"{_command_name(error)} needs {argument.name}."
        case RepeatArgumentError(token=token):
            return f"{token.keyword} is given twice."
        case CoercionError(token=token) if token is not None and token.keyword == "--json":
            return "--json takes no value."
        case CoercionError(token=token, argument=argument, target_type=hint) if (
            token is not None and argument is not None and (allowed := _describe_type(hint))
        ):
            return f'{token.keyword or argument.name} must be {allowed}, not "{token.value}".'
        case UnknownCommandError(unused_tokens=[str(option), *_]) if option.startswith("-"):
            return f'Unknown option "{option}".'
        case UnknownOptionError(
            token=token, unused_tokens=[*tokens], argument_collection=known
        ) if error.command_chain in COMMANDS_WITH_VALUES and (
            suggestion := _suggest_value(token.value, tokens)
        ):
            # The parser also suggests options that are hardly similar.
            names = [name for argument in known for name in argument.names]
            close = get_close_matches(token.value, names, n=1, cutoff=0.8)
            near = f" Did you mean {close[0]}?" if close else ""
            return (
                f"Unknown option: {token.value}.{near}"
                f" Write a parameter as name=value: {suggestion}."
            )
        case _:
            return str(error)


def _describe_type(hint: Any) -> str | None:
    """Return what an option accepts, such as `a number or none`.

    Return None if the parser's own message is better.
    """
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    names: list[str] = []
    for option in options:
        if get_origin(option) is Literal:
            names += map(str, get_args(option))
        elif option is not NoneType:
            names.append(_TYPE_NAMES.get(option, ""))
    return (
        " or ".join(names)
        if all(names) and not set(names).isdisjoint(_TYPE_NAMES.values())
        else None
    )


def _suggest_value(option: str, tokens: Sequence[str]) -> str | None:
    """Return `seconds=1` for `--seconds 1` or `--seconds=1`, or None if there is no value."""
    name, equals, value = option.lstrip("-").partition("=")
    if not equals and option in tokens[:-1]:
        value = tokens[tokens.index(option) + 1]
    return f"{name}={value}" if value and not value.startswith("-") else None


def _command_name(error: CycloptsError) -> str:
    return " ".join(("headway", *(error.command_chain or ())))


def _quote(tokens: Sequence[str]) -> str:
    return " ".join(f'"{token}"' for token in tokens)


def _error_code(error: Exception) -> str:
    """Return the code that the server sent, or the name of the error: KeyBusy is `key_busy`."""
    if isinstance(error, ApiError):
        return error.code
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
