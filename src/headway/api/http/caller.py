"""Who asks, as the guard has found out: it is kept with what is done."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.types import Scope


def caller_of(scope: Scope) -> str:
    """`token:operate`, `session:operate:ann`; nothing where everybody may do everything."""
    by: str = scope["state"]["caller"].by
    return by


def _caller(request: Request) -> str:
    return caller_of(request.scope)


By = Annotated[str, Depends(_caller)]
