"""How a command ends that could not do what it was asked: one sentence, or one JSON object."""

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
    UnusedCliTokensError,
)

EXIT_FAULT: Final = 2
USAGE: Final = "usage"
HELP: Final = "See: headway --help"


def end_with(error: Exception, words: Sequence[str]) -> NoReturn:
    """Say on stderr what is wrong, as JSON if `words` (of the command line) ask for it; exit 2."""
    is_usage = isinstance(error, CycloptsError)
    sentence = f"{usage_sentence(error)} {HELP}" if is_usage else str(error)
    sentence = " ".join(sentence.splitlines())
    if any(word == "--json" or word.startswith("--json=") for word in words):
        code = USAGE if is_usage else _code_of(error)
        print(json.dumps({"error": {"code": code, "message": sentence}}), file=sys.stderr)
    else:
        print(f"headway: {sentence}", file=sys.stderr)
    sys.exit(EXIT_FAULT)


def usage_sentence(error: Exception) -> str:
    """What was typed wrongly, without the words of the library that reads the command line."""
    match error:
        case UnusedCliTokensError(unused_tokens=[*words]):
            return f"{_command(error)} takes no {_quoted(words)}."
        case MissingArgumentError(argument=argument) if argument is not None:
            return f"{_command(error)} needs {argument.name}."
        case RepeatArgumentError(token=token):
            return f"{token.keyword} is given twice."
        case CoercionError(token=token) if token is not None and token.keyword == "--json":
            return "--json takes no value."
        case UnknownCommandError(unused_tokens=[str(word), *_]) if word.startswith("-"):
            return f'Unknown option "{word}".'
        case _:
            return str(error)


def _command(error: CycloptsError) -> str:
    return " ".join(("headway", *(error.command_chain or ())))


def _quoted(words: Sequence[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


def _code_of(error: Exception) -> str:
    """KeyBusy is `key_busy`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
