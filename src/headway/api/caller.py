"""Who asks, as far as it is known: with what kind of token, and never the token itself."""

from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.types import Scope

_AUTHORIZATION: Final = b"authorization"


def caller_of(scope: Scope) -> str:
    """`token:operate`, `session:operate`; nothing where everybody may do everything."""
    state = scope.get("state", {})
    has = state.get("scope")
    if has is None or state.get("is_open"):
        return ""
    is_token = any(name == _AUTHORIZATION for name, _ in scope["headers"])
    return f"{'token' if is_token else 'session'}:{has.word}"


def _caller(request: Request) -> str:
    return caller_of(request.scope)


By = Annotated[str, Depends(_caller)]
