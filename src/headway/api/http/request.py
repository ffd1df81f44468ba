"""Reads the actor of a request, and the media types in its `Accept` header."""

import re
from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import Depends, Request
from starlette.types import Scope

_ESCAPED: Final = re.compile(r"\\.")
_ZERO_QUALITY: Final = re.compile(r"q\s*=\s*0(\.0*)?")


def get_actor(scope: Scope) -> str:
    """Return the authenticated actor, such as `token:operate` or `session:operate:ann`.

    The actor is stored with each change that the request makes. It is empty on a server without
    tokens, where every caller may do everything.
    """
    actor: str = scope["state"]["caller"].actor
    return actor


def _get_request_actor(request: Request) -> str:
    return get_actor(request.scope)


Actor = Annotated[str, Depends(_get_request_actor)]


def accepts_media_type(accept: Iterable[str], media_type: str) -> bool:
    """Return True if an `Accept` header names the media type itself.

    A wildcard (`*`) does not count, and `q=0` declines the type.
    """
    return any(
        _is_accepted(media_range, media_type)
        for header in accept
        for media_range in _strip_quoted(header).split(",")
    )


def _is_accepted(media_range: str, media_type: str) -> bool:
    name, *parameters = (part.strip().lower() for part in media_range.split(";"))
    return name == media_type and not any(map(_ZERO_QUALITY.fullmatch, parameters))


def _strip_quoted(header: str) -> str:
    """Remove quoted strings, because commas inside them do not separate media ranges."""
    return "".join(_ESCAPED.sub("", header).split('"')[::2])
