"""Values as people type them: `name=value`, and JSON where JSON is meant."""

import json
from collections.abc import Sequence
from typing import Any

from headway.core.document import decode_document
from headway.core.errors import InvalidInput


def value_of(word: str) -> Any:
    """JSON if it is that, else the word itself: 5 is a number, and "5" in quotes is text."""
    try:
        json.loads(word)
    except ValueError:
        return word
    return decode_document(word, place=repr(word))


def values_of(words: Sequence[str], *, place: str) -> dict[str, Any]:
    """The values of `name=value`, by name."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InvalidInput(place, f"{word!r} must be name=value")
        if name in values:
            raise InvalidInput(place, f"{name} is given twice")
        values[name] = value_of(value)
    return values
