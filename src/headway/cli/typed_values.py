"""Parses values on the command line: `name=value`, where the value is JSON or text."""

import json
from collections.abc import Sequence
from typing import Any

from headway.core.document import decode_document
from headway.core.errors import InvalidInput


def parse_value(text: str) -> Any:
    """Return the value of `text` if it is JSON, else `text` itself.

    For example, `5` is a number, and `"5"` is text.
    """
    try:
        json.loads(text)
    except ValueError:
        return text
    return decode_document(text, field=repr(text))


def parse_values(arguments: Sequence[str], *, field: str, alternatives: str = "") -> dict[str, Any]:
    """Parse arguments such as `name=value`. Raise InvalidInput if one is invalid.

    `alternatives` are the options that the error suggests instead.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals):
            advice = f", or use {alternatives}" if alternatives else ""
            raise InvalidInput(field, f"{argument!r} must be name=value{advice}")
        if name in values:
            raise InvalidInput(field, f"{name} is given twice")
        values[name] = parse_value(value)
    return values
