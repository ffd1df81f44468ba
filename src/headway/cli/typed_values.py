"""Values as people type them: `name=value`, and JSON where JSON is meant."""

import json
from collections.abc import Sequence
from typing import Any

from headway.core.document import decode_document
from headway.core.errors import InvalidInput


def parse_value(word: str) -> Any:
    """JSON if it is that, else the word itself: 5 is a number, and "5" in quotes is text."""
    try:
        json.loads(word)
    except ValueError:
        return word
    return decode_document(word, field=repr(word))


def parse_values(words: Sequence[str], *, field: str) -> dict[str, Any]:
    """The values of `name=value`, by name."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InvalidInput(field, f"{word!r} must be name=value")
        if name in values:
            raise InvalidInput(field, f"{name} is given twice")
        values[name] = parse_value(value)
    return values
