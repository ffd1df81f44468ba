"""What a writer says to other processes when it commits: who it is, and which events are new.

It travels with the commit, is some sixty bytes long whatever the batch, and only says where to
look: the events themselves are in the database.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headway.core.run.events import Event

CHANNEL: Final = "headway"
FIELD_COUNT: Final = 3
SEQ_LENGTH_MAX: Final = 18


class Notice(NamedTuple):
    writer_id: str
    first_seq: int
    last_seq: int


def encode_notice(writer_id: str, events: Sequence[Event]) -> str | None:
    """The notice of a batch with these events; a batch without any is nobody's business."""
    if not events:
        return None
    return f"{writer_id} {events[0].seq} {events[-1].seq}"


def parse_notice(text: str) -> Notice | None:
    """None when it is none of ours: whoever may use the database may write to the channel."""
    words = text.split(" ")
    if len(words) != FIELD_COUNT or not (_is_seq(words[1]) and _is_seq(words[2])):
        return None
    return Notice(words[0], int(words[1]), int(words[2]))


def _is_seq(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= SEQ_LENGTH_MAX
