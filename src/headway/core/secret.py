"""Secrets among parameters: kept, given to the job, and shown to nobody.

In a document a secret stands as `{"$secret": "its value"}`, so that whoever shows the document
knows it for one. It is shown as `{"secret": "set"}`, and what comes back so means: as it was.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headway.core.errors import InvalidInput

MARK: Final = "$secret"
SHOWN: Final = {"secret": "set"}
_MARK_TEXT: Final = f'"{MARK}"'


def sealed(
    params: Mapping[str, Any], names: Iterable[str], *, kept: Mapping[str, Any]
) -> dict[str, Any]:
    """`params`, those of `names` marked as secret; what is only shown as set is as in `kept`."""
    after = dict(params)
    for name in names:
        value = after.get(name)
        if value == SHOWN:
            if name not in kept:
                raise InvalidInput(f"params.{name}", "is only shown as set: give it once more")
            value = after[name] = kept[name]
        if isinstance(value, str):
            after[name] = {MARK: value}
    return after


def opened(document: str) -> Any:
    """What the document holds, for the job itself."""
    if _MARK_TEXT not in document:
        return json.loads(document)
    return json.loads(document, object_hook=_open)


def opened_text(document: str) -> str:
    """The document for whoever works on it elsewhere."""
    if _MARK_TEXT not in document:
        return document
    return json.dumps(opened(document), ensure_ascii=False)


def veiled(document: str) -> str:
    """The document as it may be shown."""
    if _MARK_TEXT not in document:
        return document
    return json.dumps(veiled_value(json.loads(document)), ensure_ascii=False)


def secret_values(document: str) -> list[str]:
    """Return the values of all secrets in the document."""
    if _MARK_TEXT not in document:
        return []
    found: list[str] = []

    def note(value: dict[str, Any]) -> dict[str, Any]:
        secret = value.get(MARK)
        if isinstance(secret, str) and secret:
            found.append(secret)
        return value

    json.loads(document, object_hook=note)
    return found


def is_veiled(params: Mapping[str, Any]) -> bool:
    """Whether it says of a secret only that it is set."""
    return SHOWN in params.values()


def veiled_value(value: Any) -> Any:
    """The same, of what was taken out of a document."""
    if isinstance(value, dict):
        return SHOWN if MARK in value else {name: veiled_value(one) for name, one in value.items()}
    return [veiled_value(one) for one in value] if isinstance(value, list) else value


def _open(value: dict[str, Any]) -> Any:
    return value[MARK] if len(value) == 1 and MARK in value else value
