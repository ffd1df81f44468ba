"""The notice that a writer sends to other processes with its commit.

A notice contains the writer's id and the range of the new events. It has about sixty bytes for a
batch of any size. The events themselves are read from the database.
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
    """Return the notice for a batch with these events, or None if the batch has no events."""
    if not events:
        return None
    return f"{writer_id} {events[0].seq} {events[-1].seq}"


def parse_notice(text: str) -> Notice | None:
    """Return the notice in `text`, or None if `text` is not a notice from headway.

    Every program that may use the database may also write to the channel.
    """
    fields = text.split(" ")
    if len(fields) != FIELD_COUNT or not (_is_seq(fields[1]) and _is_seq(fields[2])):
        return None
    return Notice(fields[0], int(fields[1]), int(fields[2]))


def _is_seq(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= SEQ_LENGTH_MAX
