"""Pages of lists, and the opaque cursors that lead from one page to the next."""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query, Response
from pydantic import BaseModel

from headway.core.document import check_text
from headway.core.errors import InvalidInput

T = TypeVar("T")
CursorPart = int | str
CURSOR_LENGTH_MAX: Final = 8_192
INT64_MAX: Final = (1 << 63) - 1
INT32_MAX: Final = (1 << 31) - 1
"""The highest version number of a flow, and the highest `seq` of a node run."""
PAGE_ITEM_COUNT_MAX: Final = 1_000
PAGE_BYTE_COUNT_MAX: Final = 16 << 20
"""The maximum size in bytes of all items of a page together. A single item may be larger."""
Limit = Annotated[int, Query(ge=1, le=PAGE_ITEM_COUNT_MAX)]
Cursor = Annotated[
    str | None,
    Query(max_length=CURSOR_LENGTH_MAX, description="The `cursor` of the previous page."),
]


def encode_cursor(*parts: CursorPart) -> str:
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, *kinds: type[CursorPart]) -> Any:
    """Return the parts that were passed to `encode_cursor`, or None if `cursor` is None.

    Raise InvalidInput if the text is not a cursor with parts of these types.
    """
    if cursor is None:
        return None
    parts = _decode_parts(cursor)
    has_types = len(parts) == len(kinds) and all(
        type(part) is kind for part, kind in zip(parts, kinds, strict=True)
    )
    if not has_types or not all(map(_is_storable, parts)) or encode_cursor(*parts) != cursor:
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


def split_page(rows: Sequence[T], limit: int) -> tuple[Sequence[T], T | None]:
    """Return the rows of a page, and the last of these rows if another page follows.

    If no page follows, the second value is None. `rows` are the result of a query for `limit` + 1
    rows.
    """
    page = rows[:limit]
    return page, page[-1] if len(rows) > limit else None


class Page(Response):
    """A response with one page of a list.

    `cursor` leads to the next page. It is None on the last page.
    """

    media_type = "application/json"

    def __init__(self, model: type[BaseModel], texts: Iterable[bytes], cursor: str | None) -> None:
        """Build a page from the JSON of its items.

        `model` has two fields: the list of items, and `cursor`.
        """
        self.cursor = cursor
        member, _ = model.model_fields
        parts = (member.encode(), b",".join(texts), json.dumps(cursor).encode())
        super().__init__(b'{"%b":[%b],"cursor":%b}' % parts)


async def build_page(
    model: type[BaseModel], items: AsyncIterator[tuple[Sequence[CursorPart], str]], *, limit: int
) -> Page:
    """Return a page of at most `limit` items, or of fewer if they are large.

    `items` yields the cursor parts and the JSON of each item. It must yield one item more than
    `limit` if another page follows.
    """
    encoded = ((position, text.encode()) async for position, text in items)
    positions, texts, has_more = await take_fitting(encoded, limit=limit)
    return Page(model, texts, encode_cursor(*positions[-1]) if has_more else None)


async def take_fitting(
    items: AsyncIterator[tuple[T, bytes]], *, limit: int
) -> tuple[list[T], list[bytes], bool]:
    """Take the items that fit on one page. Return their positions, their JSON, and a flag.

    The flag is True if more items follow. At most `limit` items fit, or fewer if they are large,
    but the first item always fits. `items` yields the position and the JSON of each item. It must
    yield one item more than `limit` if more items follow.
    """
    positions: list[T] = []
    texts: list[bytes] = []
    free_byte_count = PAGE_BYTE_COUNT_MAX
    async for position, text in items:
        free_byte_count -= len(text)
        if texts and (free_byte_count < 0 or len(texts) == limit):
            return positions, texts, True
        positions.append(position)
        texts.append(text)
    return positions, texts, False
