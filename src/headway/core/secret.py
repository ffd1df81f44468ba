"""Secrets among parameters: kept, given to the job, and shown to nobody.

In a document a secret stands as `{"$secret": "its value"}`, so that whoever shows the document
knows it for one. It is shown as `{"secret": "set"}`, and what comes back so means: as it was.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headway.core.errors import InvalidInput

SECRET_MARKER: Final = "$secret"
REDACTED: Final = {"secret": "set"}
_MARKER_TEXT: Final = f'"{SECRET_MARKER}"'


def mark_secrets(
    params: Mapping[str, Any], names: Iterable[str], *, stored: Mapping[str, Any]
) -> dict[str, Any]:
    """`params`, those of `names` marked as secret; what is only shown as set is as in `kept`."""
    after = dict(params)
    for name in names:
        value = after.get(name)
        if value == REDACTED:
            if name not in stored:
                raise InvalidInput(f"params.{name}", "is only shown as set: give it once more")
            value = after[name] = stored[name]
        if isinstance(value, str):
            after[name] = {SECRET_MARKER: value}
    return after


def reveal(document: str) -> Any:
    """What the document holds, for the job itself."""
    if _MARKER_TEXT not in document:
        return json.loads(document)
    return json.loads(document, object_hook=_reveal_object)


def reveal_text(document: str) -> str:
    """The document for whoever works on it elsewhere."""
    if _MARKER_TEXT not in document:
        return document
    return json.dumps(reveal(document), ensure_ascii=False)


def redact(document: str) -> str:
    """The document as it may be shown."""
    if _MARKER_TEXT not in document:
        return document
    return json.dumps(redact_value(json.loads(document)), ensure_ascii=False)


def secret_values(document: str) -> list[str]:
    """Return the values of all secrets in the document."""
    if _MARKER_TEXT not in document:
        return []
    found: list[str] = []

    def note(value: dict[str, Any]) -> dict[str, Any]:
        secret = value.get(SECRET_MARKER)
        if isinstance(secret, str) and secret:
            found.append(secret)
        return value

    json.loads(document, object_hook=note)
    return found


def has_redacted(params: Mapping[str, Any]) -> bool:
    """Whether it says of a secret only that it is set."""
    return REDACTED in params.values()


def redact_value(value: Any) -> Any:
    """The same, of what was taken out of a document."""
    if isinstance(value, dict):
        return (
            REDACTED
            if SECRET_MARKER in value
            else {name: redact_value(one) for name, one in value.items()}
        )
    return [redact_value(one) for one in value] if isinstance(value, list) else value


def _reveal_object(value: dict[str, Any]) -> Any:
    return value[SECRET_MARKER] if len(value) == 1 and SECRET_MARKER in value else value
