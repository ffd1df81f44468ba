"""The stream of events has no gaps (I13), and lanes keep their limits (I5)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headway.core.doctor.finding import Finding, note, violation
from headway.core.doctor.slots import SlotEvent
from headway.core.lane_row import LaneRow


class StreamExtent(NamedTuple):
    """Where the stream begins and ends: by its own row, and by the events that are there."""

    seq: int
    pruned_seq: int
    first_event_seq: int | None
    last_event_seq: int | None


@dataclass(frozen=True, slots=True)
class ExaminedEvents:
    after_seq: int
    up_to_seq: int
    seqs: Sequence[int] | None
    """Of the events between; None: as many as there should be."""
    slot_events: Sequence[SlotEvent] = ()
    """The events of the page that give, return or limit slots, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneUsage:
    lane: LaneRow
    held_count: int
    last_taken_seq: int | None
    """Of the last event that gave one of its present holders a slot; None: pruned."""
    is_changed_since: bool
    """Whether the lane's limits were set after that."""


def check_extent(extent: StreamExtent) -> Iterator[Finding]:
    first, last = extent.first_event_seq, extent.last_event_seq
    if last is not None and last > extent.seq:
        sentence = f"the stream ends at {extent.seq}, but there is an event beyond it"
        yield violation("I13", f"event {last}", sentence)
    if first is not None and first <= extent.pruned_seq:
        sentence = f"the stream is pruned up to {extent.pruned_seq}, but this event is there"
        yield violation("I13", f"event {first}", sentence)


def check_events(page: ExaminedEvents) -> Iterator[Finding]:
    """One finding for each gap, however wide."""
    if page.seqs is None:
        return
    last_seq = page.after_seq
    for seq in (*page.seqs, page.up_to_seq + 1):
        if seq != last_seq + 1:
            first, last = last_seq + 1, seq - 1
            place = f"event {first}" if first == last else f"events {first} to {last}"
            yield violation("I13", place, f"missing: the stream has a gap ({seq - first} events)")
        last_seq = seq


def check_lane(use: LaneUsage) -> Iterator[Finding]:
    """More slots than the limit are legal only while nobody took one since the limit was set.

    Slots are given below the limit only: when the last one was given, all were within it.
    """
    lane = use.lane
    if use.held_count <= lane.max_concurrent:
        return
    place = f"lane {lane.name!r}"
    sentence = f"{use.held_count} slots are held, and the limit is {lane.max_concurrent}"
    is_given_since = use.last_taken_seq is not None and not use.is_changed_since
    if lane.revision == 0 or is_given_since:
        yield violation("I5", place, sentence)
    else:
        yield note("I5", place, f"{sentence}: it was lowered, and nobody is interrupted for that")
