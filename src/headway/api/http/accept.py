"""`Accept`: what a client says that it can read."""

import re
from collections.abc import Iterable
from typing import Final

_ESCAPED: Final = re.compile(r"\\.")
_ZERO_QUALITY: Final = re.compile(r"q\s*=\s*0(\.0*)?")


def accepts_media_type(accept: Iterable[str], media_type: str) -> bool:
    """Whether it is asked for by its name, and not by a `*`; with `q=0` it is declined."""
    return any(
        _is_accepted(one, media_type) for line in accept for one in _strip_quoted(line).split(",")
    )


def _is_accepted(one: str, media_type: str) -> bool:
    name, *parameters = (part.strip().lower() for part in one.split(";"))
    return name == media_type and not any(map(_ZERO_QUALITY.fullmatch, parameters))


def _strip_quoted(line: str) -> str:
    """Without what is in quotes: commas in there part nothing."""
    return "".join(_ESCAPED.sub("", line).split('"')[::2])
