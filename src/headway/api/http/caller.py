"""Who asks, as the guard has found out: it is kept with what is done."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.types import Scope


def get_actor(scope: Scope) -> str:
    """`token:operate`, `session:operate:ann`; nothing where everybody may do everything."""
    by: str = scope["state"]["caller"].by
    return by


def _get_request_actor(request: Request) -> str:
    return get_actor(request.scope)


Actor = Annotated[str, Depends(_get_request_actor)]
