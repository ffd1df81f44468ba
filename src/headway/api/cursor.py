"""Cursors: where a page ends, in words that nobody should take apart."""

import base64
import binascii

from headway.core.errors import InvalidInput


def write_cursor(seq: int) -> str:
    return base64.urlsafe_b64encode(str(seq).encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> int:
    """What `write_cursor` was given; InvalidInput for anything else."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        seq = int(base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii"))
    except (binascii.Error, ValueError):
        raise InvalidInput("cursor", "must be the `cursor` of an earlier page") from None
    if write_cursor(seq) != cursor or not 0 < seq < 1 << 63:
        raise InvalidInput("cursor", "must be the `cursor` of an earlier page")
    return seq
