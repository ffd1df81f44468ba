"""How a command ends: its code; and if it could not do what it was asked, why, in one sentence."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

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
"""The run or the task that was watched has ended, and not succeeded."""
EXIT_INVALID: Final = 2
"""Wrong words, a wrong setting, or input that cannot be taken."""
EXIT_CONFLICT: Final = 3
"""Right words, wrong moment: a busy key, a full lane, a run that is over, a stale answer."""
EXIT_NOT_FOUND: Final = 4
EXIT_UNREACHABLE: Final = 5
"""The server or the database does not answer, or cannot work just now."""
EXIT_NOT_ALLOWED: Final = 6
"""No token, a wrong one, or one that may not do this."""
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141
"""Whoever read our output has gone, as after `| head`; what SIGPIPE ends with in a shell."""
USAGE: Final = "usage"
COMMANDS_WITH_VALUES: Final = frozenset({("run", "submit"), ("run", "resume"), ("key", "set")})
"""The commands that take words such as `name=value`."""
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


def exit_with_error(error: Exception, words: Sequence[str]) -> NoReturn:
    """Say on stderr what is wrong, as JSON if `words` (of the command line) ask for it; exit."""
    is_usage = isinstance(error, CycloptsError)
    sentence = str(error)
    if isinstance(error, CycloptsError):
        sentence = f"{usage_message(error)} See: {_command_name(error)} --help"
    sentence = " ".join(sentence.splitlines())
    if any(word == "--json" or word.startswith("--json=") for word in words):
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
    """What was typed wrongly, without the words of the library that reads the command line."""
    match error:
        case UnusedCliTokensError(unused_tokens=[*words]):
            return f"{_command_name(error)} takes no {_quote(words)}."
        case MissingArgumentError(argument=argument) if argument is not None:
            return f"{_command_name(error)} needs {argument.name}."
        case RepeatArgumentError(token=token):
            return f"{token.keyword} is given twice."
        case CoercionError(token=token) if token is not None and token.keyword == "--json":
            return "--json takes no value."
        case UnknownCommandError(unused_tokens=[str(word), *_]) if word.startswith("-"):
            return f'Unknown option "{word}".'
        case UnknownOptionError(token=token, unused_tokens=[*words]) if (
            error.command_chain in COMMANDS_WITH_VALUES
            and (meant := _suggest_value(token.value, words))
        ):
            return f"Unknown option: {token.value}. A parameter is given as name=value: {meant}."
        case _:
            return str(error)


def _suggest_value(option: str, words: Sequence[str]) -> str | None:
    """`seconds=1` for `--seconds 1` or `--seconds=1`; None: there is no value to it."""
    name, equals, value = option.lstrip("-").partition("=")
    if not equals and option in words[:-1]:
        value = words[words.index(option) + 1]
    return f"{name}={value}" if value and not value.startswith("-") else None


def _command_name(error: CycloptsError) -> str:
    return " ".join(("headway", *(error.command_chain or ())))


def _quote(words: Sequence[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


def _error_code(error: Exception) -> str:
    """What the server has said, or else the error's name: KeyBusy is `key_busy`."""
    if isinstance(error, ApiError):
        return error.code
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
