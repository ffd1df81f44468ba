"""Secrets among parameters: stored, passed to the job, and never shown.

A document contains a secret as `{"$secret": "its value"}`, so that every view can redact it. Views
show it as `{"secret": "set"}`. A request with this placeholder leaves the secret unchanged.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headway.core.errors import InvalidInput

SECRET_MARKER: Final = "$secret"  # noqa: S105 - The name of a JSON member.
REDACTED: Final = {"secret": "set"}
_MARKER_TEXT: Final = f'"{SECRET_MARKER}"'


def mark_secrets(
    params: Mapping[str, Any], names: Iterable[str], *, stored: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `params` with the parameters in `names` marked as secrets.

    A redacted value is replaced by the secret in `stored`. Raise InvalidInput if `stored` lacks it.
    """
    after = dict(params)
    for name in names:
        value = after.get(name)
        if value == REDACTED:
            if name not in stored:
                raise InvalidInput(
                    f"params.{name}", "is redacted, and no value is stored; send the secret itself"
                )
            value = after[name] = stored[name]
        if isinstance(value, str):
            after[name] = {SECRET_MARKER: value}
    return after


def reveal(document: str) -> Any:
    """Decode a document with its secrets revealed, for the job."""
    if _MARKER_TEXT not in document:
        return json.loads(document)
    return json.loads(document, object_hook=_reveal_object)


def reveal_text(document: str) -> str:
    """Return a document with its secrets revealed, for a job in another process."""
    if _MARKER_TEXT not in document:
        return document
    return json.dumps(reveal(document), ensure_ascii=False)


def redact(document: str) -> str:
    """Return a document with its secrets redacted, for views."""
    if _MARKER_TEXT not in document:
        return document
    return json.dumps(redact_value(json.loads(document)), ensure_ascii=False)


def secret_values(document: str) -> list[str]:
    """Return the values of all secrets in the document."""
    if _MARKER_TEXT not in document:
        return []
    secrets: list[str] = []

    def collect(value: dict[str, Any]) -> dict[str, Any]:
        secret = value.get(SECRET_MARKER)
        if isinstance(secret, str) and secret:
            secrets.append(secret)
        return value

    json.loads(document, object_hook=collect)
    return secrets


def has_redacted(params: Mapping[str, Any]) -> bool:
    """Return whether a parameter is a redacted secret."""
    return REDACTED in params.values()


def redact_value(value: Any) -> Any:
    """Return a decoded value with its secrets redacted."""
    if isinstance(value, dict):
        return (
            REDACTED
            if SECRET_MARKER in value
            else {name: redact_value(member) for name, member in value.items()}
        )
    return [redact_value(item) for item in value] if isinstance(value, list) else value


def _reveal_object(value: dict[str, Any]) -> Any:
    return value[SECRET_MARKER] if len(value) == 1 and SECRET_MARKER in value else value
