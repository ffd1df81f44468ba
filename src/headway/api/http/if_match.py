"""`If-Match`: a change only of what the caller has seen, by the rules of HTTP."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Header

from headway.api.http.problem import Problem

IfMatch = Annotated[
    str | None,
    Header(
        max_length=1_000,
        description='A revision, as `ETag` tells it: `"3"`. `*`: whichever, if there is one.',
    ),
]
_TAG: Final = r'(?:W/)?"[^"\x00-\x20\x7f]*"|[0-9]{1,18}'
_TAGS: Final = re.compile(rf"(?:{_TAG})(?:[ \t]*,[ \t]*(?:{_TAG}))*")
_TAG_PARTS: Final = re.compile(r'(W/)?"([^"]*)"|([0-9]+)')


async def expected_revision(
    if_match: str | None, what: str, current: Callable[[], Awaitable[int | None]]
) -> int | None:
    """The revision that must be met; None: any. 412 where none can be.

    `current` tells at which it is, and None when there is nothing: to a tag that is 0, as a lane
    that nobody has changed is at. A weak tag is never met.
    """
    if if_match is None:
        return None
    words = if_match.strip()
    if words == "*":
        if await current() is None:
            raise _to_revision_conflict(what, None)
        return None
    if _TAGS.fullmatch(words) is None:
        problem = 'If-Match: must be a revision, such as "3", or *'
        raise Problem(422, "invalid_input", problem, {"place": "If-Match"})
    tags = [bare or tag for weak, tag, bare in _TAG_PARTS.findall(words) if not weak]
    wanted = [int(tag) for tag in tags if re.fullmatch("[0-9]{1,18}", tag)]
    if len(wanted) == 1:
        return wanted[0]
    revision = await current()
    if (revision or 0) in wanted:
        return revision or 0
    raise _to_revision_conflict(what, revision)


def _to_revision_conflict(what: str, revision: int | None) -> Problem:
    is_at = "there is none" if revision is None else f"it is at revision {revision}"
    detail = f"{what} is not what If-Match asks for; {is_at}"
    return Problem(412, "revision_conflict", detail, {"revision": revision or 0})
