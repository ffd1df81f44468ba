"""`If-Match`: change a resource only if it has the revision that the caller has read."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Header

from headway.api.http.problem import Problem
from headway.core.errors import InvalidInput

IfMatch = Annotated[
    str | None,
    Header(
        max_length=1_000,
        description='A revision from an `ETag`, such as `"3"`. `*`: any, if the resource exists.',
    ),
]
_TAG: Final = r'(?:W/)?"[^"\x00-\x20\x7f]*"|[0-9]{1,18}'
_TAGS: Final = re.compile(rf"(?:{_TAG})(?:[ \t]*,[ \t]*(?:{_TAG}))*")
_TAG_PARTS: Final = re.compile(r'(W/)?"([^"]*)"|([0-9]+)')


async def expected_revision(
    if_match: str | None, resource: str, read_revision: Callable[[], Awaitable[int | None]]
) -> int | None:
    """Return the revision that the `If-Match` header requires, or None if it accepts any.

    Raise a 412 Problem if no tag can match. `read_revision` returns the current revision, or None
    if the resource is not stored. A tag of 0 matches a resource that is not stored, because a lane
    that was never changed has revision 0. A weak tag never matches.
    """
    if if_match is None:
        return None
    header = if_match.strip()
    if header == "*":
        if await read_revision() is None:
            raise _to_revision_conflict(resource, None)
        return None
    if _TAGS.fullmatch(header) is None:
        raise InvalidInput("If-Match", 'must be a revision, such as "3", or *')
    tags = [bare or tag for weak, tag, bare in _TAG_PARTS.findall(header) if not weak]
    accepted = [int(tag) for tag in tags if re.fullmatch("[0-9]{1,18}", tag)]
    if len(accepted) == 1:  # The write itself compares it, so it need not be read here.
        return accepted[0]
    revision = await read_revision()
    if (revision or 0) in accepted:
        return revision or 0
    raise _to_revision_conflict(resource, revision)


def _to_revision_conflict(resource: str, revision: int | None) -> Problem:
    state = "it does not exist" if revision is None else f"it is at revision {revision}"
    detail = f"{resource} does not match If-Match; {state}"
    return Problem(412, "revision_conflict", detail, {"revision": revision or 0})
