"""Cursors: where a page ends, in words that nobody should take apart."""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query, Response

from headway.core.document import check_text
from headway.core.errors import InvalidInput

T = TypeVar("T")
CursorPart = int | str
CURSOR_LENGTH_MAX: Final = 8_192
INT64_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1
"""Of versions, and of the node runs of a task."""
PAGE_ITEM_COUNT_MAX: Final = 1_000
PAGE_BYTE_COUNT_MAX: Final = 16 << 20
"""In bytes, where what is listed may be large."""
Limit = Annotated[int, Query(ge=1, le=PAGE_ITEM_COUNT_MAX)]
Cursor = Annotated[
    str | None,
    Query(
        max_length=CURSOR_LENGTH_MAX, description="The `cursor` of an earlier page: goes on there."
    ),
]


def encode_cursor(*parts: CursorPart) -> str:
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *kinds: type[CursorPart]) -> Any:
    """The parts that `write_cursor` was given; None for None, InvalidInput for anything else."""
    if cursor is None:
        return None
    parts = _decode_parts(cursor)
    is_ours = len(parts) == len(kinds) and all(
        type(part) is kind for part, kind in zip(parts, kinds, strict=True)
    )
    if not is_ours or not all(map(_is_storable, parts)) or encode_cursor(*parts) != cursor:
        raise InvalidInput("cursor", "must be the `cursor` of an earlier page")
    return parts


def _decode_parts(cursor: str) -> list[Any]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        parts = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError, RecursionError):
        return []
    return parts if isinstance(parts, list) else []


def _is_storable(part: CursorPart) -> bool:
    if isinstance(part, int):
        return 0 <= part <= INT64_MAX
    return bool(check_text(part, field="cursor", length_max=CURSOR_LENGTH_MAX))


def split_page(found: Sequence[T], limit: int) -> tuple[Sequence[T], T | None]:
    """Of `limit` + 1 that were asked for, those to show; the last of them, if there are more."""
    shown = found[:limit]
    return shown, shown[-1] if len(found) > limit else None


class Page(Response):
    """A page of a list; `cursor` leads to the next, None: there is none."""

    media_type = "application/json"

    def __init__(self, member: str, texts: Iterable[bytes], cursor: str | None) -> None:
        self.cursor = cursor
        given = (member.encode(), b",".join(texts), json.dumps(cursor).encode())
        super().__init__(b'{"%b":[%b],"cursor":%b}' % given)


async def build_page(
    member: str, found: AsyncIterator[tuple[Sequence[CursorPart], str]], *, limit: int
) -> Page:
    """A page with what finds room in it.

    `found` tells of each where it stands, and its JSON: one more than `limit`, if there is one.
    """
    texts = ((place, text.encode()) async for place, text in found)
    places, shown, has_more = await take_fitting(texts, limit=limit)
    return Page(member, shown, encode_cursor(*places[-1]) if has_more else None)


async def take_fitting(
    found: AsyncIterator[tuple[T, bytes]], *, limit: int
) -> tuple[list[T], list[bytes], bool]:
    """What finds room in an answer, one at least: where each stands, its JSON, and are there more.

    `found` has one more than `limit`, if there is one.
    """
    places: list[T] = []
    texts: list[bytes] = []
    room = PAGE_BYTE_COUNT_MAX
    async for place, text in found:
        room -= len(text)
        if texts and (room < 0 or len(texts) == limit):
            return places, texts, True
        places.append(place)
        texts.append(text)
    return places, texts, False
